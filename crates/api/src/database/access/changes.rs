//! What requests change: one transaction with the change, its entry in the audit log and, of a request with a key, the answer.
//!
//! A process that dies on any line has written nothing or all of it. A change that is only tried is one as any other, which is taken back.

use std::convert::Infallible;

use actix_web::HttpResponse;
use sched_model::connection::row_security::Scope;
use sched_model::connection::transaction::{TransactionError, Work};
use sched_model::identity::idempotency::{self, Asked, Begun};
use sched_model::{Conn, DbError};
use sched_wire::IDEMPOTENCY_KEY;

use super::operator;
use crate::error::ApiError;
use crate::error::field_error::{Mistake, Reason};
use crate::http::reply::{Reply, note_replay};
use crate::identity::{By, Identity};
use crate::state::ApiState;

/// What became of a change.
#[derive(Debug)]
pub(crate) struct Written<T> {
    /// The answer.
    pub(crate) response: HttpResponse,
    /// What the work gave besides, for hints after the commit; `None` when the answer is that of an earlier request.
    pub(crate) extra: Option<T>,
}

/// How a transaction ends of which nothing is to be kept: with an error, whatever came of it.
enum Rehearsal<T> {
    /// It could have been committed.
    Over(T),
    /// It failed.
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
    /// Runs `work` as one change, in the tenant of who asks. It may be run again.
    ///
    /// Of a request with a key the answer is kept in the same transaction, and given again instead of running `work` again; one that is
    /// refused leaves nothing.
    ///
    /// # Errors
    /// What `work` returns, or that the database cannot be asked. Nothing was written then, unless the connection broke at the end.
    pub(crate) async fn write<T, F>(
        &self,
        who: &Identity,
        by: &By,
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
        self.write_in(Scope::tenant(who.tenant()), who, by, name, work).await
    }

    /// As [`Self::write`], of what belongs to the installation.
    ///
    /// # Errors
    /// As there, or who asks does not operate the installation.
    pub(crate) async fn write_installation<T, F>(
        &self,
        who: &Identity,
        by: &By,
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
        self.write_in(operator(who)?, who, by, name, work).await
    }

    async fn write_in<T, F>(
        &self,
        scope: Scope,
        who: &Identity,
        by: &By,
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
        let asked = by.once.as_ref().map(|once| once.asked(who.tenant()));
        let once = async |conn: &mut Conn| {
            if let Some(asked) = &asked
                && let Some(reply) = answered_before(conn, asked).await?
            {
                return Ok((reply, None));
            }
            let (reply, extra) = work(conn).await?;
            if let Some(asked) = asked.as_ref().filter(|_| reply.is_success()) {
                idempotency::keep(conn, asked, &reply.to_kept()).await?;
            }
            Ok::<_, ApiError>((reply, Some(extra)))
        };
        let (reply, extra) = self.sessions.run(scope, name, once).await?;
        let mut response = reply.into_response();
        if extra.is_none() {
            note_replay(&mut response);
        }
        Ok(Written { response, extra })
    }

    /// Runs `work` as [`Self::write`] would, in the tenant of who asks, and keeps nothing of it. It may be run again.
    ///
    /// # Errors
    /// What `work` returns, or that the database cannot be asked.
    pub(crate) async fn rehearse<T, F>(
        &self,
        who: &Identity,
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
            Ok(told) => Err::<Infallible, _>(Rehearsal::Over(told)),
            Err(error) => Err(Rehearsal::Failed(error)),
        };
        match self.sessions.run(Scope::tenant(who.tenant()), name, never_kept).await {
            Err(Rehearsal::Over(told)) => Ok(told),
            Err(Rehearsal::Failed(error)) => Err(error),
        }
    }

    /// Runs `work` as one of several changes of the installation that a request makes, whose answer is no single one's. What was done
    /// stays done when a later one fails, so the request must be one that can be sent again.
    ///
    /// # Errors
    /// As of [`Self::write_installation`].
    pub(crate) async fn change_installation<T, F>(
        &self,
        who: &Identity,
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
        self.sessions.run(operator(who)?, name, work).await
    }
}

/// The answer that was given to the same request; `None` when it is to be done now.
async fn answered_before(conn: &mut Conn, asked: &Asked<'_>) -> Result<Option<Reply>, ApiError> {
    match idempotency::begin(conn, asked).await? {
        Begun::First => Ok(None),
        Begun::Again(kept) => Reply::of_kept(kept).map(Some),
        Begun::InFlight => Err(ApiError::InFlight),
        Begun::OtherRequest => Err(ApiError::Refused(vec![Mistake {
            reason: Reason::KeyReused,
            pointer: IDEMPOTENCY_KEY.to_owned(),
            message: "was used for another request; send a new key for a new request".to_owned(),
        }])),
    }
}
