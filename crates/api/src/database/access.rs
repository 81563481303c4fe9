//! The connections of the API to the database, and the work before and beside a request.
//!
//! This is the only access to the database: only [`crate::database::pools`] holds connections.
//! Every transaction begins by setting the tenant of the caller, whose rows alone it can see.
//! [`crate::database::requests`] has the transactions of requests. This module decides no rules and
//! contains no SQL.

use std::time::Duration;

use sched_model::connection::migrations::SchemaError;
use sched_model::connection::notify::{self, Hint};
use sched_model::connection::pool::{InvalidDatabaseSettings, PoolStatus};
use sched_model::connection::row_security::{API_ROLE, Scope};
use sched_model::connection::transaction::{TransactionError, Work, measured, transact_in};
use sched_model::domain::ids::{DEFAULT_TENANT, TenantId};
use sched_model::{
    Conn, DatabaseSettings, DbResult,
    connection::{database_clock, startup},
    dispatching::trigger,
    identity::tenants,
};

use crate::database::pools::Pools;

/// Time limit of a survey. The client has given up after that.
const SURVEY_WITHIN: Duration = Duration::from_secs(5);

/// Row-level security applies to their role.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pub(super) lanes: Pools,
}

impl Sessions {
    pub(crate) fn new(settings: DatabaseSettings) -> Result<Self, InvalidDatabaseSettings> {
        Ok(Self { lanes: Pools::new(DatabaseSettings { role: Some(API_ROLE), ..settings })? })
    }

    pub(crate) fn threads(&self) -> usize {
        self.lanes.threads()
    }

    pub(crate) fn serve_here(&self) {
        self.lanes.open();
    }

    /// Waits for the database. Checks its schema, and that row-level security applies to the role.
    pub(crate) async fn wait_until_usable(&self) -> Result<(), SchemaError> {
        startup::wait_until_usable(self.lanes.common()).await
    }

    pub(crate) async fn default_tenant(&self) -> DbResult<TenantId> {
        self.run(Scope::tenant(DEFAULT_TENANT).read_only(), "find_default_tenant", async |conn: &mut Conn| {
            tenants::by_slug(conn, tenants::DEFAULT_TENANT).await
        })
        .await
    }

    pub(crate) async fn ping(&self) -> DbResult<()> {
        database_clock::now(&*self.lanes.conn().await?).await.map(drop)
    }

    pub(crate) fn pool_status(&self) -> PoolStatus {
        self.lanes.status()
    }

    /// Sees no row of a tenant.
    pub(crate) async fn survey<T, F>(&self, work: F) -> DbResult<T>
    where
        T: Send,
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<T> + Work<&'r mut Conn, DbResult<T>, Fut: Send> + Send + Sync,
    {
        self.run(Scope::no_tenant().read_only().within(SURVEY_WITHIN), "survey_installation", work).await
    }

    /// Reads the events of all tenants, for [`crate::events::hub`] only.
    pub(crate) async fn follow<T, F>(&self, name: &'static str, work: F) -> DbResult<T>
    where
        T: Send,
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<T> + Work<&'r mut Conn, DbResult<T>, Fut: Send> + Send + Sync,
    {
        self.run(Scope::no_tenant().following().read_only(), name, work).await
    }

    /// Outside the pools, so that the stream reader never waits for requests.
    pub(crate) async fn own(&self) -> DbResult<Conn> {
        self.lanes.common().dedicated().await
    }

    pub(crate) async fn follow_on<T, F>(&self, conn: &mut Conn, name: &'static str, work: F) -> DbResult<T>
    where
        T: Send,
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<T> + Work<&'r mut Conn, DbResult<T>, Fut: Send> + Send + Sync,
    {
        transact_in(conn, Scope::no_tenant().following().read_only(), name, work).await
    }

    /// Notifies workers of new runs in these queues, as [`crate::state::ApiState::hint`] notifies other daemons.
    pub(crate) async fn notify_workers(&self, queues: &[String]) -> DbResult<()> {
        notify::dispatches_waiting(&mut *self.lanes.conn().await?, queues).await
    }

    pub(crate) async fn listen(&self, channels: &[&'static str], on_hint: impl FnMut(Hint)) {
        notify::listen(self.lanes.common(), channels, on_hint).await;
    }

    pub(crate) fn close(&self) {
        self.lanes.close();
    }

    /// Triggers jobs of one tenant in one transaction. Each trigger was authorized separately.
    pub(crate) async fn trigger(
        &self,
        tenant: TenantId,
        orders: &[trigger::Order<'_>],
        may_notify: impl FnOnce() -> bool + Send,
    ) -> DbResult<trigger::TriggeredBatch> {
        let mut conn = self.lanes.conn().await?;
        measured("trigger_jobs", trigger::trigger_batch(&mut conn, tenant, orders, may_notify)).await
    }

    pub(super) async fn run<T, E, F>(&self, scope: Scope, name: &'static str, work: F) -> Result<T, E>
    where
        T: Send,
        E: TransactionError + Send,
        for<'r> F:
            AsyncFn(&'r mut Conn) -> Result<T, E> + Work<&'r mut Conn, Result<T, E>, Fut: Send> + Send + Sync,
    {
        let mut conn = self.lanes.conn().await?;
        transact_in(&mut conn, scope, name, work).await
    }
}
