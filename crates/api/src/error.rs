//! Errors of requests. `problem` has their answers.
//!
//! One type and one exhaustive mapping: a new variant must choose its status and its code. Internal
//! causes (messages of the database) are in the log and never in an answer.
//! [`crate::http::middleware`] does the logging.

pub(crate) mod all_errors;
pub(crate) mod conflict;
pub(crate) mod field_error;
mod problem;

use std::sync::Arc;

use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use sched_model::DbError;
use sched_model::domain::identity::Permission;
use sched_wire::{BASE_PATH, CSRF_TOKEN};

use crate::error::conflict::Conflict;
use crate::error::field_error::{FieldError, Reason};
use crate::http::extract::limits::{BODY_WITHIN, MAX_BODY_BYTES};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("no such path; the API is below {BASE_PATH}")]
    NoSuchPath,
    #[error("this path supports {allow}")]
    MethodNotAllowed { allow: String },
    #[error("there is no {kind} {name:?}")]
    NotFound { kind: &'static str, name: String },
    #[error("the body is not valid JSON: {0}")]
    Malformed(String),
    #[error("the body must be application/json in UTF-8, without a content encoding")]
    MediaType,
    #[error("the body is longer than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    #[error("the body did not arrive within {} s; nothing was changed", BODY_WITHIN.as_secs())]
    SlowBody,
    #[error("the body ended before it was complete")]
    BrokenBody(#[source] PayloadError),
    #[error("{}", list_mistakes(.0))]
    Parameters(Vec<FieldError>),
    /// Nothing was written.
    #[error("{}", list_mistakes(.0))]
    Refused(Vec<FieldError>),
    #[error(
        "this API has no keys for secrets: start it, and every worker, with secrets-key-file (SECRETS_KEY_FILE); \
         `schedctl secrets keygen` creates the file"
    )]
    NoSecretKeys,
    #[error("internal error; the log has the cause under the id of this request")]
    Unsealed(#[source] sched_model::domain::secret::SealError),
    #[error("internal error; the log has the cause under the id of this request")]
    Unwritten(#[source] serde_json::Error),
    #[error("no scheduler leads; start one, or wait until one takes over")]
    NoLeader,
    #[error(
        "no other scheduler is ready to lead, so nothing would be dispatched for two leases; start one first, \
         or send {{\"force\": true}}"
    )]
    NoStandby,
    /// `If-Match` names another version; nothing was written.
    #[error(
        "the resource has version {found} now, which If-Match does not name; nothing was written: read it again and repeat the change"
    )]
    OtherVersion { found: i64 },
    /// `If-Match` names another entity tag; nothing was written.
    #[error(
        "the {kind} has the ETag \"{found}\" now, which If-Match does not name; nothing was written: read it again and repeat the change"
    )]
    OtherTag { kind: &'static str, found: String },
    /// The resource exists and must not, or the reverse; nothing was written.
    #[error("{0}")]
    Precondition(String),
    #[error("a request with this Idempotency-Key is running; send it again later to get its answer")]
    InFlight,
    /// Nothing was written.
    #[error(transparent)]
    Conflict(Conflict),
    #[error("{}", .0.as_deref().unwrap_or("send an API key in the header Authorization: Bearer sched_…, or the cookie of a session"))]
    Unauthenticated(
        /// The reason; `None` without credentials.
        Option<String>,
    ),
    #[error("{0}")]
    SignInFailed(&'static str),
    #[error("too many sign-ins have failed; wait {after_seconds} s")]
    TooManySignIns { after_seconds: u32 },
    /// A request with a session cookie lacks the CSRF token.
    #[error(
        "with the cookie of a session this request needs the header {CSRF_TOKEN}; signing in and \
         `GET {BASE_PATH}/sessions/current` return its value"
    )]
    Csrf,
    #[error("the keys of the token issuer cannot be read; retry, or use an API key")]
    NoTokenKeys,
    #[error(
        "this request needs the permission {0}, which you do not have; `GET {BASE_PATH}/me` lists your permissions"
    )]
    Forbidden(Permission),
    /// A key or token with scopes cannot act as its user in person.
    #[error(
        "a key or token with scopes can neither read nor end the sessions of its user, nor change the password; use one without scopes"
    )]
    Bounded,
    #[error("a key cannot have a permission that its creator lacks, and you do not have {0}")]
    TooWide(Permission),
    #[error("this key has reached its request rate; wait {after_seconds} s")]
    TooManyRequests { after_seconds: u32 },
    #[error("this address has sent too many requests with unknown credentials; wait {after_seconds} s")]
    TooManyUnauthenticated { after_seconds: u32 },
    #[error("the tenant has used up its quota of {limit} runs per minute; wait {after_seconds} s")]
    QuotaUsedUp { limit: i64, after_seconds: u32 },
    #[error(
        "the request is for the host {0:?}; without an API key, only loopback names and those of api-allowed-hosts \
         (API_ALLOWED_HOSTS) are allowed"
    )]
    WrongHost(String),
    #[error("a page of another site sent this request")]
    CrossSite,
    #[error("too many passwords are being checked at once; nothing was changed, retry")]
    TooManyPasswords,
    #[error("the request exceeded its time limit; check whether it took effect before you retry")]
    TimedOut,
    #[error(
        "too many clients follow output or events through this API; retry later, or use another API process"
    )]
    TooManyFollowers,
    #[error("this path accepts WebSockets only: {0}")]
    NoUpgrade(String),
    #[error("this key has {limit} streams open, which is its limit; close one first")]
    TooManyStreams { limit: usize },
    #[error("the API has not reached its database yet; retry")]
    Starting,
    #[error("the database cannot be reached; retry later, and check first whether a change took effect")]
    Unavailable(#[source] DbError),
    /// The database is too busy, or the same rows are contended.
    #[error("the database is too busy; retry")]
    Busy(#[source] DbError),
    /// A computation panicked (the panic is in the log), or the daemon stops.
    #[error("internal error; the log has the cause under the id of this request")]
    Broken,
    #[error("internal error; the log has the cause under the id of this request")]
    Internal(#[source] DbError),
    /// One error for several requests, each of which returns it.
    #[error(transparent)]
    Shared(Arc<ApiError>),
}

fn list_mistakes(mistakes: &[FieldError]) -> String {
    match mistakes {
        [only] if only.pointer.is_empty() => only.message.clone(),
        [only] => format!("{}: {}", only.pointer, only.message),
        several => format!("{} errors; nothing was changed", several.len()),
    }
}

impl From<DbError> for ApiError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Unavailable(_) => Self::Unavailable(error),
            DbError::Collision(_) | DbError::TimedOut(_) => Self::Busy(error),
            DbError::Constraint { .. }
            | DbError::NotFound
            | DbError::TermOver
            | DbError::Corrupt { .. }
            | DbError::NoPermission(_)
            | DbError::Other(_) => Self::Internal(error),
        }
    }
}

impl ApiError {
    pub(crate) fn parameter(name: &str, message: impl Into<String>) -> Self {
        Self::Parameters(vec![FieldError::invalid(name, message)])
    }

    pub(crate) fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "no_such_path"),
            Self::MethodNotAllowed { .. } => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed_json"),
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::SlowBody => (StatusCode::REQUEST_TIMEOUT, "body_too_slow"),
            Self::BrokenBody(_) => (StatusCode::BAD_REQUEST, "broken_body"),
            Self::Parameters(_) => (StatusCode::BAD_REQUEST, "invalid_parameters"),
            Self::Refused(mistakes) => refusal(mistakes),
            Self::NoSecretKeys => (StatusCode::UNPROCESSABLE_ENTITY, "no_secret_keys"),
            Self::NoLeader => (StatusCode::CONFLICT, "no_leader"),
            Self::NoStandby => (StatusCode::CONFLICT, "no_standby"),
            Self::Conflict(conflict) => (StatusCode::CONFLICT, conflict.code()),
            Self::InFlight => (StatusCode::CONFLICT, "idempotency_key_in_flight"),
            Self::Precondition(_) => (StatusCode::PRECONDITION_FAILED, "precondition_failed"),
            Self::OtherVersion { .. } | Self::OtherTag { .. } => {
                (StatusCode::PRECONDITION_FAILED, "version_mismatch")
            }
            Self::Unauthenticated(_) => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::SignInFailed(_) => (StatusCode::UNAUTHORIZED, "sign_in_failed"),
            Self::TooManySignIns { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_sign_ins"),
            Self::Csrf => (StatusCode::FORBIDDEN, "csrf"),
            Self::NoTokenKeys => (StatusCode::SERVICE_UNAVAILABLE, "no_token_keys"),
            Self::Forbidden(_) | Self::Bounded | Self::TooWide(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::TooManyRequests { .. } | Self::TooManyUnauthenticated { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_requests")
            }
            Self::QuotaUsedUp { .. } => (StatusCode::TOO_MANY_REQUESTS, "quota_exceeded"),
            Self::WrongHost(_) => (StatusCode::MISDIRECTED_REQUEST, "wrong_host"),
            Self::CrossSite => (StatusCode::FORBIDDEN, "cross_site"),
            Self::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, "timed_out"),
            Self::TooManyFollowers => (StatusCode::SERVICE_UNAVAILABLE, "too_many_followers"),
            Self::NoUpgrade(_) => (StatusCode::UPGRADE_REQUIRED, "upgrade_required"),
            Self::TooManyStreams { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_streams"),
            Self::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "database_unavailable"),
            Self::Busy(_) | Self::TooManyPasswords => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::Broken | Self::Unsealed(_) | Self::Unwritten(_) | Self::Internal(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
            Self::Shared(error) => error.kind(),
        }
    }
}

/// One value that is never valid decides the status of the whole request; otherwise the first
/// conflict does.
fn refusal(mistakes: &[FieldError]) -> (StatusCode, &'static str) {
    match mistakes.iter().find(|mistake| !mistake.reason.is_conflict()).or(mistakes.first()) {
        Some(mistake) if mistake.reason.is_conflict() => (StatusCode::CONFLICT, mistake.reason.code()),
        Some(mistake) => (StatusCode::UNPROCESSABLE_ENTITY, mistake.reason.code()),
        None => (StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_value_outweighs_a_conflict() {
        let conflict = FieldError {
            reason: Reason::SingletonTaken,
            pointer: "/jobs/0/function".into(),
            message: "taken".into(),
        };
        let invalid = FieldError::invalid("/jobs/1/name", "is wrong");
        assert_eq!(ApiError::Refused(vec![conflict.clone()]).kind().1, "singleton_taken");
        assert_eq!(ApiError::Refused(vec![conflict, invalid]).kind().0, StatusCode::UNPROCESSABLE_ENTITY);
    }
}
