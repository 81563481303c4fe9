//! The refusals of operations: their statuses, meanings and headers.

use actix_web::http::{Method, StatusCode};

use super::placeholders;
use crate::http::route::Path;
use crate::openapi::operation::OperationDoc;

pub(super) const REFUSALS: [(StatusCode, &str); 15] = [
    (StatusCode::BAD_REQUEST, "The request is malformed; `errors` names the parameter."),
    (StatusCode::UNAUTHORIZED, "The caller is unknown: no credentials, or invalid ones."),
    (StatusCode::FORBIDDEN, "The caller lacks the permission."),
    (StatusCode::NOT_FOUND, "The tenant has no such resource."),
    (
        StatusCode::METHOD_NOT_ALLOWED,
        "The path does not support this method; `Allow` lists the supported ones.",
    ),
    (StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time; nothing was done."),
    (StatusCode::CONFLICT, "The present state does not allow the request; it may succeed later."),
    (StatusCode::PRECONDITION_FAILED, "The resource was changed: it has another `ETag` now."),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is too long."),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body is not JSON."),
    (StatusCode::MISDIRECTED_REQUEST, "The request is for another host."),
    (StatusCode::UNPROCESSABLE_ENTITY, "The body is invalid; `errors` points at each field."),
    (StatusCode::TOO_MANY_REQUESTS, "Too many requests; retry after `Retry-After` seconds."),
    (StatusCode::INTERNAL_SERVER_ERROR, "Internal error; the log has the cause under the `request_id`."),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "The API or its database is not available now; retry after `Retry-After` seconds.",
    ),
];

pub(super) fn refusal(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("Problem").replace(' ', "")
}

pub(super) fn refusals(path: &Path, method: &Method, says: &OperationDoc) -> Vec<StatusCode> {
    let is_change = method != Method::GET;
    let names_things = placeholders(path.pattern()).next().is_some()
        || says.query.is_some()
        || says.body.is_some()
        || is_change;
    let may = |status: StatusCode| match status {
        StatusCode::NOT_FOUND => names_things || says.may_be_missing,
        StatusCode::CONFLICT => is_change,
        StatusCode::PRECONDITION_FAILED => says.is_conditional,
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => is_change,
        _ => true,
    };
    REFUSALS.iter().map(|(status, _)| *status).filter(|status| may(*status)).collect()
}

pub(super) fn refusal_header(status: StatusCode) -> Option<(&'static str, &'static str)> {
    match status {
        StatusCode::UNAUTHORIZED => Some(("WWW-Authenticate", "The accepted credentials.")),
        StatusCode::METHOD_NOT_ALLOWED => Some(("Allow", "The supported methods.")),
        StatusCode::CONFLICT => Some((
            "Retry-After",
            "Seconds until a retry, when a request with the same key is running (`idempotency_key_in_flight`).",
        )),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Some(("Retry-After", "Seconds until a retry."))
        }
        _ => None,
    }
}
