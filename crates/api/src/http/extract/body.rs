//! The body of a request: JSON, of limited length.
//!
//! The whole body is read first, within its own time limit. A request that exceeds that limit has
//! begun nothing; one that exceeds the limit of a request ([`crate::http::middleware`]) may have.

use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::Method;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::web::BytesMut;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use futures_util::StreamExt;
use futures_util::future::{FutureExt, LocalBoxFuture};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::limits::{BODY_WITHIN, MAX_BODY_BYTES};
use super::strict_json;
use crate::error::ApiError;
use crate::error::field_error;
use crate::identity::{Actor, RequestActor};

pub(crate) const MERGE_PATCH_JSON: &str = "application/merge-patch+json";

#[derive(Debug)]
pub(crate) struct Body {
    value: Option<Value>,
    length: usize,
}

impl Body {
    /// The length in bytes.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn required(self) -> Result<Value, ApiError> {
        self.value.ok_or_else(|| ApiError::Malformed("there is no body".to_owned()))
    }

    pub(crate) fn read_or_default<T: DeserializeOwned + Default>(self) -> Result<T, ApiError> {
        match self.value {
            Some(value) => field_error::read(value, "").map_err(|mistake| ApiError::Refused(vec![mistake])),
            None => Ok(T::default()),
        }
    }
}

impl FromRequest for Body {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        async move { read(&request, payload).await }.boxed_local()
    }
}

async fn read(request: &HttpRequest, payload: Payload) -> Result<Body, ApiError> {
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > MAX_BODY_BYTES as u64) {
        return Err(ApiError::TooLarge);
    }
    let bytes =
        tokio::time::timeout(BODY_WITHIN, collect(payload)).await.map_err(|_late| ApiError::SlowBody)??;
    if let Some(RequestActor(Actor { once: Some(once), .. })) = request.extensions().get() {
        once.note_body(&bytes);
    }
    if bytes.is_empty() {
        return Ok(Body { value: None, length: 0 });
    }
    if !is_json(request) {
        return Err(ApiError::MediaType);
    }
    Ok(Body { value: Some(strict_json::parse(&bytes)?), length: bytes.len() })
}

async fn collect(mut payload: Payload) -> Result<BytesMut, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| match error {
            PayloadError::Overflow => ApiError::TooLarge,
            error => ApiError::BrokenBody(error),
        })?;
        if bytes.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(ApiError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Requiring this type excludes forms of web pages: a browser sends it to another site only after a
/// preflight request.
fn is_json(request: &HttpRequest) -> bool {
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    let is_plain = header(CONTENT_ENCODING).is_none_or(|coding| coding.eq_ignore_ascii_case("identity"));
    let mut parts = header(CONTENT_TYPE).unwrap_or_default().split(';').map(str::trim);
    let is_patch = request.method() == Method::PATCH;
    let is_json = parts.next().is_some_and(|kind| {
        kind.eq_ignore_ascii_case("application/json")
            || is_patch && kind.eq_ignore_ascii_case(MERGE_PATCH_JSON)
    });
    let is_utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    is_plain && is_json && is_utf8
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_plain_json_is_taken() {
        for (headers, expected) in [
            (&[("content-type", "application/json")][..], true),
            (&[("content-type", "Application/JSON; charset=\"UTF-8\"")], true),
            (&[("content-type", "application/json"), ("content-encoding", "identity")], true),
            (&[], false),
            (&[("content-type", "text/plain")], false),
            (&[("content-type", "application/json; charset=latin1")], false),
            (&[("content-type", "application/x-www-form-urlencoded")], false),
            (&[("content-type", "application/json"), ("content-encoding", "gzip")], false),
        ] {
            let request =
                headers.iter().fold(TestRequest::post(), |request, header| request.insert_header(*header));
            assert_eq!(is_json(&request.to_http_request()), expected, "{headers:?}");
        }
        for (method, expected) in [(Method::PATCH, true), (Method::PUT, false)] {
            let request =
                TestRequest::default().method(method).insert_header((CONTENT_TYPE, MERGE_PATCH_JSON));
            assert_eq!(is_json(&request.to_http_request()), expected);
        }
    }
}
