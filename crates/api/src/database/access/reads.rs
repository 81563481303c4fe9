//! What requests read: one transaction that writes nothing, in the tenant of who asks or, for who operates it, of the installation.
//!
//! What may take long waits for a turn and is bounded, so that it takes nothing from what is quick. A process that dies in the middle leaves nothing.

use std::time::Duration;

use sched_model::Conn;
use sched_model::connection::row_security::Scope;
use sched_model::connection::transaction::{TransactionError as _, Work, read_in};

use super::operator;
use crate::error::ApiError;
use crate::events::reads::STATEMENT_WITHIN;
use crate::identity::Identity;
use crate::state::ApiState;

/// How often a read that collides with a change of the schema, as few do, is run again.
const COLLISIONS: u32 = 4;
/// How long counting may take.
const TOTALS_WITHIN: Duration = Duration::from_secs(10);

impl ApiState {
    /// Runs `work` as one read, in the tenant of who asks. It may be run again.
    ///
    /// # Errors
    /// What `work` returns, or that the database cannot be asked.
    pub(crate) async fn read<T, F>(&self, who: &Identity, name: &'static str, work: F) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, ApiError>
            + Work<&'r mut Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        self.sessions.run(Scope::tenant(who.tenant()).read_only(), name, work).await
    }

    /// As [`Self::read`], in one round trip where the work asks for one thing, or for several at once ([`read_in`]). Its statements are planned
    /// once: they are those whose plan is the same whatever is asked for, and planning them takes longer than they do.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn look<T, F>(&self, who: &Identity, name: &'static str, work: F) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r Conn) -> Result<T, ApiError>
            + Work<&'r Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        let scope = Scope::tenant(who.tenant()).with_general_plans();
        let mut again = COLLISIONS;
        loop {
            let conn = self.sessions.lanes.conn().await?;
            match read_in(conn, scope, name, &work).await {
                Err(error) if error.is_retryable() && again > 0 => again -= 1,
                result => return result,
            }
        }
    }

    /// As [`Self::read`], of what belongs to the installation.
    ///
    /// # Errors
    /// As there, or who asks does not operate the installation.
    pub(crate) async fn read_installation<T, F>(
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
        self.sessions.run(operator(who)?.read_only(), name, work).await
    }

    /// As [`Self::read`], or as [`Self::read_installation`] if that is asked for: a piece of the stream of events, which may lie far
    /// behind. Waits for a turn, and no statement takes long ([`crate::events::reads`]).
    ///
    /// # Errors
    /// As there; [`ApiError::Busy`] when a statement took too long.
    pub(crate) async fn read_events<T, F>(
        &self,
        who: &Identity,
        with_installation: bool,
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
        let scope = if with_installation { operator(who)? } else { Scope::tenant(who.tenant()) };
        let _turn = self.event_reads.turn(who.tenant()).await;
        self.sessions.run(scope.read_only().within(STATEMENT_WITHIN), name, work).await
    }

    /// As [`Self::read`], of what takes long where there is much: waits for a turn, and no statement takes longer than [`TOTALS_WITHIN`].
    ///
    /// # Errors
    /// As there; [`ApiError::Busy`] when a statement took too long.
    pub(crate) async fn read_totals<T, F>(
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
        let _turn = self.total_reads.turn(who.tenant()).await;
        self.sessions.run(Scope::tenant(who.tenant()).read_only().within(TOTALS_WITHIN), name, work).await
    }
}
