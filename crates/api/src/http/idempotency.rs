//! Requests with an `Idempotency-Key`, which take effect once, however often the client sends them.
//!
//! The middleware ([`crate::http::middleware`]) reads the key and the request line. The extractor
//! ([`crate::http::extract::Body`]) adds the body. The write ([`crate::database::requests`]) stores
//! the answer and returns it again. Requests and answers may be stored, so requests about secrets
//! accept no key.

use std::sync::{Arc, OnceLock};

use actix_web::http::header::HeaderMap;
use actix_web::http::{Method, Uri};
use percent_encoding::percent_decode_str;
use sched_model::domain::idempotency::{Fingerprint, LONGEST_KEY, digest, is_key};
use sched_model::domain::ids::TenantId;
use sched_model::identity::idempotency::KeyedRequest;
use sched_wire::{BASE_PATH, IDEMPOTENCY_KEY};

use crate::error::ApiError;

/// Paths below the base whose requests or answers must not be stored, not even as a hash: guessing
/// passwords against a hash is cheap.
const SECRET: [&str; 5] = ["/api-keys", "/me/password", "/secrets", "/sessions", "/users"];

#[derive(Debug, Clone)]
pub(crate) struct IdempotentRequest {
    caller: String,
    key: String,
    method: String,
    path: String,
    query: String,
    body: Arc<OnceLock<[u8; 32]>>,
}

/// `None` without a key, and for methods that change nothing.
///
/// # Errors
/// The key is malformed, or the path accepts none.
pub(crate) fn key(method: &Method, path: &str, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    if method.is_safe() {
        return Ok(None);
    }
    let wrong = |message: String| Err(ApiError::parameter(IDEMPOTENCY_KEY, message));
    let mut values = headers.get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return wrong("occurs twice".to_owned());
    }
    // Decoded as the router does it: one path can have many percent-encoded forms.
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    if decoded.strip_prefix(BASE_PATH).is_some_and(is_about_secrets) {
        return wrong("is not accepted here, because the request or its answer contains a secret; send the request without it".to_owned());
    }
    match value.to_str() {
        Ok(key) if is_key(key) => Ok(Some(key.to_owned())),
        Ok(_) | Err(_) => wrong(format!("must be 1 to {LONGEST_KEY} characters of visible ASCII")),
    }
}

/// Whether requests for this path, below the base path, accept no key.
pub(crate) fn is_about_secrets(path: &str) -> bool {
    SECRET
        .iter()
        .any(|secret| path.strip_prefix(secret).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

impl IdempotentRequest {
    pub(crate) fn new(caller: &str, key: String, method: &Method, uri: &Uri) -> Self {
        Self {
            caller: caller.to_owned(),
            key,
            method: method.to_string(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            body: Arc::default(),
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Adds the body, for all clones of the request.
    pub(crate) fn note_body(&self, bytes: &[u8]) {
        self.body.get_or_init(|| digest(bytes));
    }

    pub(crate) fn keyed_request(&self, tenant: TenantId) -> KeyedRequest<'_> {
        let body = self.body.get_or_init(|| digest(b""));
        let fingerprint = Fingerprint::of(&self.method, &self.path, &self.query, body);
        KeyedRequest { tenant, caller: &self.caller, key: &self.key, fingerprint }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};
    use sched_model::domain::ids::DEFAULT_TENANT;

    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HeaderName::from_static("idempotency-key"), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn idempotency_key_is_validated() {
        let key = |values: &[&str]| key(&Method::POST, "/api/v1/jobs", &headers(values));
        assert_eq!(key(&["a-1"]).unwrap().as_deref(), Some("a-1"));
        assert_eq!(key(&[]).unwrap(), None);
        for bad in [&[""][..], &["a b"], &["a", "b"], &[&"x".repeat(201)]] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn key_is_ignored_for_reads_and_refused_for_secrets() {
        let key = |method, path| key(&method, path, &headers(&["a"]));
        assert_eq!(key(Method::GET, "/api/v1/jobs").unwrap(), None);
        assert_eq!(key(Method::DELETE, "/api/v1/secret-keys/x").unwrap().as_deref(), Some("a"));
        for path in [
            "/api/v1/api-keys",
            "/api/v1/secrets/a",
            "/api/v1/users",
            "/api/v1/users/a/activate",
            "/api/v1/%61pi-keys",
            "/api/v1/api%2Dkeys",
            "/api/v1/%73ecrets/%zz",
            "/%61pi/v1/users%2fa",
        ] {
            assert!(key(Method::POST, path).is_err(), "{path}");
        }
        assert_eq!(key(Method::PUT, "/api/v1/jobs/100%25%").unwrap().as_deref(), Some("a"));
    }

    #[test]
    fn body_is_part_of_the_request_hash() {
        let uri = Uri::from_static("/api/v1/jobs");
        let once = || IdempotentRequest::new("me", "k".to_owned(), &Method::POST, &uri);
        let (first, second, bare) = (once(), once(), once());
        let of_handler = first.clone();
        first.note_body(b"{}");
        second.note_body(b"[]");
        let fingerprint = |once: &IdempotentRequest| once.keyed_request(DEFAULT_TENANT).fingerprint;
        assert_eq!(fingerprint(&first), fingerprint(&of_handler));
        assert_ne!(fingerprint(&first), fingerprint(&second));
        assert_ne!(fingerprint(&first), fingerprint(&bare));
    }
}
