//! Writes of requests: one transaction with the change, its audit event and, with an idempotency
//! key, the stored answer.
//!
//! A process that dies at any point has written nothing or all of it. A dry run rolls back.

use std::convert::Infallible;

use actix_web::HttpResponse;
use sched_model::connection::row_security::Scope;
use sched_model::connection::transaction::{TransactionError, Work};
use sched_model::identity::idempotency::{self, KeyedRequest, RequestState};
use sched_model::{Conn, DbError};
use sched_wire::IDEMPOTENCY_KEY;

use super::operator;
use crate::error::ApiError;
use crate::error::field_error::{FieldError, Reason};
use crate::http::reply::{Reply, note_replay};
use crate::identity::{Actor, Identity};
use crate::state::ApiState;

/// A write: its actor, and the rows that it may change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    name: &'static str,
    scope: Scope,
    by: &'a Actor,
}

impl<'a> Write<'a> {
    /// A write in the tenant of the actor.
    pub(crate) const fn new(name: &'static str, by: &'a Actor) -> Self {
        Self { name, scope: Scope::tenant(by.tenant), by }
    }

    /// A write of data of the installation, for `caller`.
    ///
    /// # Errors
    /// The caller is not a system operator.
    pub(crate) fn of_installation(
        name: &'static str,
        by: &'a Actor,
        caller: &Identity,
    ) -> Result<Self, ApiError> {
        Ok(Self { name, scope: operator(caller)?, by })
    }
}

#[derive(Debug)]
pub(crate) struct Written<T> {
    pub(crate) response: HttpResponse,
    /// For notifications after the commit; `None` when the answer is that of an earlier request.
    pub(crate) extra: Option<T>,
}

/// Always ends a transaction with an error, so that it rolls back.
enum Rehearsal<T> {
    Over(T),
    Failed(ApiError),
}

impl<T> From<DbError> for Rehearsal<T> {
    fn from(error: DbError) -> Self {
        Self::Failed(error.into())
    }
}

impl<T> TransactionError for Rehearsal<T> {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_retryable())
    }

    fn is_of_read_only_server(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_of_read_only_server())
    }

    fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

impl ApiState {
    /// Runs `work` as one write. `work` may run again.
    ///
    /// With an idempotency key, the same transaction stores the answer. A repeated request gets the
    /// stored answer and does not run `work`. A rejected request stores nothing.
    ///
    /// # Errors
    /// What `work` returns, or the database fails. Nothing was written then, unless the connection
    /// broke at the commit.
    pub(crate) async fn write<T, F>(&self, write: Write<'_>, work: F) -> Result<Written<T>, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<(Reply, T), ApiError>
            + Work<&'r mut Conn, Result<(Reply, T), ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        let by = write.by;
        let request = by.once.as_ref().map(|once| once.keyed_request(by.tenant));
        let once = async |conn: &mut Conn| {
            if let Some(request) = &request
                && let Some(reply) = stored_reply(conn, request).await?
            {
                return Ok((reply, None));
            }
            let (reply, extra) = work(conn).await?;
            if let Some(request) = request.as_ref().filter(|_| reply.is_success()) {
                idempotency::store(conn, request, &reply.to_stored()).await?;
            }
            Ok::<_, ApiError>((reply, Some(extra)))
        };
        let (reply, extra) = self.sessions.run(write.scope, write.name, once).await?;
        let mut response = reply.into_response();
        if extra.is_none() {
            note_replay(&mut response);
        }
        Ok(Written { response, extra })
    }

    /// Like [`Self::write`], and rolls back. `work` may run again.
    pub(crate) async fn rehearse<T, F>(
        &self,
        caller: &Identity,
        name: &'static str,
        work: F,
    ) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, ApiError>
            + Work<&'r mut Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        let never_kept = async |conn: &mut Conn| match work(conn).await {
            Ok(result) => Err::<Infallible, _>(Rehearsal::Over(result)),
            Err(error) => Err(Rehearsal::Failed(error)),
        };
        match self.sessions.run(Scope::tenant(caller.tenant()), name, never_kept).await {
            Err(Rehearsal::Over(result)) => Ok(result),
            Err(Rehearsal::Failed(error)) => Err(error),
        }
    }

    /// Runs `work` as one of several writes of the installation in one request. Earlier writes stay
    /// when a later one fails, so the request must be safe to repeat.
    ///
    /// # Errors
    /// Those of [`Write::of_installation`] and of [`Self::write`].
    pub(crate) async fn change_installation<T, F>(
        &self,
        caller: &Identity,
        name: &'static str,
        work: F,
    ) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, ApiError>
            + Work<&'r mut Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        self.sessions.run(operator(caller)?, name, work).await
    }
}

/// `None` when the request must run now.
async fn stored_reply(conn: &mut Conn, request: &KeyedRequest<'_>) -> Result<Option<Reply>, ApiError> {
    match idempotency::begin(conn, request).await? {
        RequestState::First => Ok(None),
        RequestState::Repeated(kept) => Reply::from_stored(kept).map(Some),
        RequestState::InFlight => Err(ApiError::InFlight),
        RequestState::OtherRequest => Err(ApiError::Refused(vec![FieldError {
            reason: Reason::KeyReused,
            pointer: IDEMPOTENCY_KEY.to_owned(),
            message: "was used for another request; send a new key for a new request".to_owned(),
        }])),
    }
}
