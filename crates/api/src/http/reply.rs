//! Answers that can be kept, and given again to whoever sends the same request again ([`crate::http::idempotency`]).
//!
//! A reply is made inside the transaction of its change and becomes an HTTP answer after the commit, so that what is kept and what is told
//! are the same. Holds nothing; nothing to lose.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, HeaderName, HeaderValue, LOCATION};
use sched_model::DbError;
use sched_model::identity::idempotency::KeptAnswer;
use serde::Serialize;
use serde_json::Value;

use crate::error::ApiError;

/// An answer that can be kept: no more than what a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    status: StatusCode,
    location: Option<String>,
    etag: Option<String>,
    body: Option<Value>,
    /// What stands in place of the body when the same request is answered again.
    again: Option<Value>,
}

/// Says in an answer that it was given before, to the same request.
pub(crate) fn note_replay(response: &mut HttpResponse) {
    let name = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(name, HeaderValue::from_static("true"));
}

impl Reply {
    /// 200 with a body.
    pub(crate) fn ok(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::OK, body)
    }

    /// 201 with a body; say where it is with [`Self::location`].
    pub(crate) fn created(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::CREATED, body)
    }

    /// Any status with a body.
    pub(crate) fn with(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_value(body).map_err(ApiError::Unwritten)?;
        Ok(Self { status, location: None, etag: None, body: Some(body), again: None })
    }

    /// 204.
    pub(crate) const fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, location: None, etag: None, body: None, again: None }
    }

    /// Where the thing is that was made.
    pub(crate) fn location(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// The entity tag of what is shown, with its quotes.
    pub(crate) fn etag(self, etag: String) -> Self {
        Self { etag: Some(etag), ..self }
    }

    /// The same with another body for whoever sends the request again.
    pub(crate) fn or_again(self, body: &impl Serialize) -> Result<Self, ApiError> {
        let again = serde_json::to_value(body).map_err(ApiError::Unwritten)?;
        Ok(Self { again: Some(again), ..self })
    }

    /// Whether it says that what was asked for was done.
    pub(crate) fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// The answer as it is kept for the same request.
    pub(crate) fn to_kept(&self) -> KeptAnswer {
        KeptAnswer {
            // Below 1000 by its type.
            status: i16::try_from(self.status.as_u16()).unwrap_or_default(),
            location: self.location.clone(),
            etag: self.etag.clone(),
            body: self.again.as_ref().or(self.body.as_ref()).map(Value::to_string),
        }
    }

    /// An answer that was kept.
    pub(crate) fn of_kept(kept: KeptAnswer) -> Result<Self, ApiError> {
        let corrupt = |reason: String| DbError::Corrupt { what: "a kept answer".to_owned(), reason };
        let status = u16::try_from(kept.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let body = kept.body.as_deref().map(serde_json::from_str).transpose();
        Ok(Self {
            status: status.ok_or_else(|| corrupt(format!("its status is {}", kept.status)))?,
            location: kept.location,
            etag: kept.etag,
            body: body.map_err(|error| corrupt(error.to_string()))?,
            again: None,
        })
    }

    /// The answer itself, where none is kept.
    pub(crate) fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if let Some(location) = self.location {
            response.insert_header((LOCATION, location));
        }
        if let Some(etag) = self.etag {
            response.insert_header((ETAG, etag));
        }
        match self.body {
            Some(body) => response.json(body),
            None => response.finish(),
        }
    }
}
