//! What a request does in the database: one transaction that reads, or one that changes and answers.
//!
//! The only door to the database for handlers. A change, its entry in the audit log and the answer are one transaction: a process that
//! dies on any line has written nothing or all of it, and the client that heard nothing asks again. Rules are not decided here,
//! and no SQL is known.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, LOCATION};
use sched_model::db::tx::{TransactionError, Work};
use sched_model::db::{Conn, DbResult, transact};
use serde::Serialize;
use serde_json::Value;

use crate::error::ApiError;
use crate::identity::{By, Identity};
use crate::state::ApiState;

/// An answer that can be kept: no more than what a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    status: StatusCode,
    location: Option<String>,
    etag: Option<String>,
    body: Option<Value>,
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
        Ok(Self { status, location: None, etag: None, body: Some(body) })
    }

    /// 204.
    pub(crate) const fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, location: None, etag: None, body: None }
    }

    /// Where the thing is that was made.
    pub(crate) fn location(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// The entity tag of what is shown, with its quotes.
    pub(crate) fn etag(self, etag: String) -> Self {
        Self { etag: Some(etag), ..self }
    }

    fn into_response(self) -> HttpResponse {
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

/// What became of a change.
#[derive(Debug)]
pub(crate) struct Written<T> {
    /// The answer.
    pub(crate) response: HttpResponse,
    /// What the work gave besides, for hints after the commit; `None` when the answer is that of an earlier request.
    pub(crate) extra: Option<T>,
}

impl ApiState {
    /// Runs `work` as one read, in the tenant of who asks. It may be run again.
    ///
    /// # Errors
    /// What `work` returns, or that the database cannot be asked.
    pub(crate) async fn read<T, F>(&self, _who: &Identity, name: &'static str, work: F) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, ApiError>
            + Work<&'r mut Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        let mut conn = self.database.conn().await?;
        transact(&mut conn, name, work).await
    }

    /// Runs `work` as one change, in the tenant of who asks. It may be run again.
    ///
    /// # Errors
    /// What `work` returns, or that the database cannot be asked. Nothing was written then, unless the connection broke at the end.
    pub(crate) async fn write<T, F>(
        &self,
        _who: &Identity,
        _by: &By,
        name: &'static str,
        work: F,
    ) -> Result<Written<T>, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<(Reply, T), ApiError>
            + Work<&'r mut Conn, Result<(Reply, T), ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        let mut conn = self.database.conn().await?;
        let (reply, extra) = transact(&mut conn, name, work).await?;
        Ok(Written { response: reply.into_response(), extra: Some(extra) })
    }

    /// Tells another daemon of a change that is committed. A hint may be lost: whom it is for looks by itself as well.
    pub(crate) async fn hint<F>(&self, whom: &'static str, work: F)
    where
        F: AsyncFn(&mut Conn) -> DbResult<()>,
    {
        let told = match self.database.conn().await {
            Ok(mut conn) => work(&mut conn).await,
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            tracing::warn!(error = error.with_causes(), whom, "A hint is lost; they look by themselves.");
        }
    }
}

impl TransactionError for ApiError {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(error) | Self::Busy(error) | Self::Internal(error) => error.is_retryable(),
            _ => false,
        }
    }
}
