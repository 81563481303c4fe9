//! Reads of requests: one read-only transaction, in the tenant of the caller or, for a system
//! operator, of the installation.
//!
//! Long reads wait for a permit and have a time limit, so they do not delay quick ones. A process
//! that dies in between leaves nothing.

use std::time::Duration;

use sched_model::Conn;
use sched_model::connection::row_security::Scope;
use sched_model::connection::transaction::{TransactionError as _, Work, read_in};

use super::operator;
use crate::error::ApiError;
use crate::events::reads::STATEMENT_WITHIN;
use crate::identity::Identity;
use crate::state::ApiState;

/// Limit of runs of a read that collides with a schema change.
const COLLISIONS: u32 = 4;
const TOTALS_WITHIN: Duration = Duration::from_secs(10);

/// The events that a read may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventScope<'a> {
    /// The caller; the events are of its tenant.
    pub(crate) caller: &'a Identity,
    /// Whether the events of the installation are included; only system operators see them.
    pub(crate) with_installation: bool,
}

impl<'a> EventScope<'a> {
    /// Only events of the tenant of the caller.
    pub(crate) const fn tenant(caller: &'a Identity) -> Self {
        Self { caller, with_installation: false }
    }
}

impl ApiState {
    /// `work` may run again.
    pub(crate) async fn read<T, F>(
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
        self.sessions.run(Scope::tenant(caller.tenant()).read_only(), name, work).await
    }

    /// Like [`Self::read`], in one round trip when the work sends one statement, or several at once
    /// ([`read_in`]). Planning takes longer than running such statements, and their plan does not
    /// depend on the parameters. So PostgreSQL plans them once.
    pub(crate) async fn read_prepared<T, F>(
        &self,
        caller: &Identity,
        name: &'static str,
        work: F,
    ) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r Conn) -> Result<T, ApiError>
            + Work<&'r Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        let scope = Scope::tenant(caller.tenant()).with_general_plans();
        let mut again = COLLISIONS;
        loop {
            let conn = self.sessions.lanes.conn().await?;
            match read_in(conn, scope, name, &work).await {
                Err(error) if error.is_retryable() && again > 0 => again -= 1,
                result => return result,
            }
        }
    }

    /// Like [`Self::read`], for data of the installation. Only system operators may call it.
    pub(crate) async fn read_installation<T, F>(
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
        self.sessions.run(operator(caller)?.read_only(), name, work).await
    }

    /// Like [`Self::read`], or [`Self::read_installation`] with the installation, for a section of
    /// the event stream, which may be old. Waits for a permit, and bounds the time of each statement
    /// ([`crate::events::reads`]).
    pub(crate) async fn read_events<T, F>(
        &self,
        events: EventScope<'_>,
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
        let caller = events.caller;
        let scope = if events.with_installation { operator(caller)? } else { Scope::tenant(caller.tenant()) };
        let _turn = self.event_reads.acquire(caller.tenant()).await;
        self.sessions.run(scope.read_only().within(STATEMENT_WITHIN), name, work).await
    }

    /// For long reads of large data. Waits for a permit; each statement ends after
    /// [`TOTALS_WITHIN`] with [`ApiError::Busy`].
    pub(crate) async fn read_totals<T, F>(
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
        let _turn = self.total_reads.acquire(caller.tenant()).await;
        self.sessions.run(Scope::tenant(caller.tenant()).read_only().within(TOTALS_WITHIN), name, work).await
    }
}
