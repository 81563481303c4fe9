//! Answers that can be stored, and returned again for a repeated request
//! ([`crate::http::idempotency`]).
//!
//! The transaction of a change creates the reply, and the HTTP answer is built from it after the
//! commit. So the stored answer equals the sent one.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{ContentType, ETAG, HeaderName, HeaderValue, LOCATION};
use sched_model::DbError;
use sched_model::identity::idempotency::StoredResponse;
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::error::ApiError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    status: StatusCode,
    location: Option<String>,
    etag: Option<String>,
    /// JSON, with the fields in the order of the type, as in the answer to a read.
    body: Option<String>,
    /// Replaces the body when the answer is repeated.
    replay_body: Option<String>,
}

pub(crate) fn note_replay(response: &mut HttpResponse) {
    let name = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(name, HeaderValue::from_static("true"));
}

impl Reply {
    pub(crate) fn ok(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::OK, body)
    }

    pub(crate) fn created(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::CREATED, body)
    }

    pub(crate) fn with(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_string(body).map_err(ApiError::Unwritten)?;
        Ok(Self { status, location: None, etag: None, body: Some(body), replay_body: None })
    }

    pub(crate) const fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, location: None, etag: None, body: None, replay_body: None }
    }

    pub(crate) fn location(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// `etag` includes its quotes.
    pub(crate) fn etag(self, etag: String) -> Self {
        Self { etag: Some(etag), ..self }
    }

    pub(crate) fn or_again(self, body: &impl Serialize) -> Result<Self, ApiError> {
        let replay_body = serde_json::to_string(body).map_err(ApiError::Unwritten)?;
        Ok(Self { replay_body: Some(replay_body), ..self })
    }

    pub(crate) fn is_success(&self) -> bool {
        self.status.is_success()
    }

    pub(crate) fn to_stored(&self) -> StoredResponse {
        StoredResponse {
            // Below 1000 by its type.
            status: i16::try_from(self.status.as_u16()).unwrap_or_default(),
            location: self.location.clone(),
            etag: self.etag.clone(),
            body: self.replay_body.clone().or_else(|| self.body.clone()),
        }
    }

    pub(crate) fn from_stored(stored: StoredResponse) -> Result<Self, ApiError> {
        let corrupt = |reason: String| DbError::Corrupt { what: "a stored answer".to_owned(), reason };
        let status = u16::try_from(stored.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let read = stored.body.as_deref().map(serde_json::from_str::<IgnoredAny>).transpose();
        read.map_err(|error| corrupt(error.to_string()))?;
        Ok(Self {
            status: status.ok_or_else(|| corrupt(format!("its status is {}", stored.status)))?,
            location: stored.location,
            etag: stored.etag,
            body: stored.body,
            replay_body: None,
        })
    }

    pub(crate) fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if let Some(location) = self.location {
            response.insert_header((LOCATION, location));
        }
        if let Some(etag) = self.etag {
            response.insert_header((ETAG, etag));
        }
        match self.body {
            Some(body) => response.content_type(ContentType::json()).body(body),
            None => response.finish(),
        }
    }
}
