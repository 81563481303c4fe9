//! What a request does in the database: one transaction that reads, or one that changes and answers.
//!
//! The only door to the database: nobody else has the connections ([`crate::database::pools`] keeps them for it), and every transaction begins by naming the
//! tenant whose rows it may see, which is that of the identity. A change, its entry in the audit log and the answer are one transaction: a process that
//! dies on any line has written nothing or all of it, and the client that heard nothing asks again. Rules are not decided here,
//! and no SQL is known.
//!
//! What belongs to the installation is behind a door of its own (`…_installation`), which only system operators pass, whatever the route.
//! `reads` has what requests read, `changes` what they change; here are the connections, and what happens before and beside a request.

mod changes;
mod reads;

use std::time::Duration;

use sched_model::connection::migrations::SchemaError;
use sched_model::connection::notify::{self, Hint};
use sched_model::connection::pool::{InvalidDatabaseSettings, PoolStatus};
use sched_model::connection::row_security::{API_ROLE, Scope};
use sched_model::connection::transaction::{TransactionError, Work, measured, transact_in};
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::{DEFAULT_TENANT, TenantId};
use sched_model::{
    Conn, DatabaseSettings, DbError, DbResult,
    connection::{database_clock, startup},
    dispatching::trigger,
    identity::tenants,
};

use crate::database::pools::Lanes;
use crate::error::ApiError;
use crate::http::route::{Needs, allowed};
use crate::identity::{Identity, Recognising};
use crate::state::ApiState;

pub(crate) use changes::Written;

/// How long a look at the installation may take; who asked has given up then.
const SURVEY_WITHIN: Duration = Duration::from_secs(5);

/// The connections, as the role that row-level security holds.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    lanes: Lanes,
}

impl Sessions {
    /// Prepares the way; connects to nothing yet.
    pub(crate) fn new(settings: DatabaseSettings) -> Result<Self, InvalidDatabaseSettings> {
        Ok(Self { lanes: Lanes::new(DatabaseSettings { role: Some(API_ROLE), ..settings })? })
    }

    /// How many threads are to serve requests, each of which calls [`Self::serve_here`].
    pub(crate) fn threads(&self) -> usize {
        self.lanes.threads()
    }

    /// Says that this thread serves requests.
    pub(crate) fn serve_here(&self) {
        self.lanes.open();
    }

    /// Waits for the database, then checks its schema and that the role is held by row-level security.
    pub(crate) async fn wait_until_usable(&self) -> Result<(), SchemaError> {
        startup::wait_until_usable(self.lanes.common()).await
    }

    /// The tenant that every installation has.
    pub(crate) async fn default_tenant(&self) -> DbResult<TenantId> {
        self.run(Scope::tenant(DEFAULT_TENANT).read_only(), "find_default_tenant", async |conn: &mut Conn| {
            tenants::by_slug(conn, tenants::DEFAULT_TENANT).await
        })
        .await
    }

    /// Whether the database answers.
    pub(crate) async fn look(&self) -> DbResult<()> {
        database_clock::now(&*self.lanes.conn().await?).await.map(drop)
    }

    /// How the connections are used at the moment.
    pub(crate) fn pool_status(&self) -> PoolStatus {
        self.lanes.status()
    }

    /// Looks at the installation as a whole; sees no row of any tenant.
    pub(crate) async fn survey<T, F>(&self, work: F) -> DbResult<T>
    where
        T: Send,
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<T> + Work<&'r mut Conn, DbResult<T>, Fut: Send> + Send + Sync,
    {
        self.run(Scope::nobody().read_only().within(SURVEY_WITHIN), "survey_installation", work).await
    }

    /// Reads the events of all tenants, which is for the one reader that feeds those who follow them ([`crate::events::hub`]).
    pub(crate) async fn follow<T, F>(&self, name: &'static str, work: F) -> DbResult<T>
    where
        T: Send,
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<T> + Work<&'r mut Conn, DbResult<T>, Fut: Send> + Send + Sync,
    {
        self.run(Scope::nobody().following().read_only(), name, work).await
    }

    /// A connection outside the pool for [`Self::follow_on`], so that the one reader waits behind nobody.
    pub(crate) async fn own(&self) -> DbResult<Conn> {
        self.lanes.common().dedicated().await
    }

    /// As [`Self::follow`], on such a connection.
    pub(crate) async fn follow_on<T, F>(&self, conn: &mut Conn, name: &'static str, work: F) -> DbResult<T>
    where
        T: Send,
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<T> + Work<&'r mut Conn, DbResult<T>, Fut: Send> + Send + Sync,
    {
        transact_in(conn, Scope::nobody().following().read_only(), name, work).await
    }

    /// Tells the workers that something waits in these queues, as [`ApiState::hint`] tells others.
    pub(crate) async fn tell_workers(&self, queues: &[String]) -> DbResult<()> {
        notify::dispatches_waiting(&mut *self.lanes.conn().await?, queues).await
    }

    /// Listens for hints for ever.
    pub(crate) async fn listen(&self, channels: &[&'static str], on_hint: impl FnMut(Hint)) {
        notify::listen(self.lanes.common(), channels, on_hint).await;
    }

    /// Gives the connections back.
    pub(crate) fn close(&self) {
        self.lanes.close();
    }

    /// Triggers jobs of a tenant, each for a request that was let in by itself, as one statement that names the tenant itself; `None` where that
    /// takes a transaction of several ([`Self::share`]).
    ///
    /// # Errors
    /// As of [`trigger::at_once`].
    pub(crate) async fn trigger(
        &self,
        tenant: TenantId,
        orders: &[trigger::Order<'_>],
    ) -> DbResult<Option<Vec<trigger::Fate>>> {
        let mut conn = self.lanes.conn().await?;
        measured("trigger_jobs", trigger::at_once(&mut conn, tenant, Trigger::Api, orders)).await
    }

    /// Runs `work` as one change in a tenant that several requests share, each of which was let in by itself. It may be run again. Its
    /// statements are planned once: they take lists of keys, however long.
    ///
    /// # Errors
    /// What `work` returns, which is to say of its own errors that nothing was written, or that the database cannot be asked.
    pub(crate) async fn share<T, F>(
        &self,
        tenant: TenantId,
        name: &'static str,
        work: F,
    ) -> Result<T, SharedError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, SharedError>
            + Work<&'r mut Conn, Result<T, SharedError>, Fut: Send>
            + Send
            + Sync,
    {
        self.run(Scope::tenant(tenant).with_general_plans(), name, work).await
    }

    async fn run<T, E, F>(&self, scope: Scope, name: &'static str, work: F) -> Result<T, E>
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

/// Why a change that several requests share was not made, as far as anybody knows.
#[derive(Debug)]
pub(crate) enum SharedError {
    /// It failed before its commit: nothing was written.
    Undone(DbError),
    /// It could not be begun, or its commit failed: what was written is not known.
    Unknown(DbError),
}

impl From<DbError> for SharedError {
    fn from(error: DbError) -> Self {
        Self::Unknown(error)
    }
}

impl TransactionError for SharedError {
    fn is_retryable(&self) -> bool {
        let (Self::Undone(error) | Self::Unknown(error)) = self;
        error.is_retryable()
    }

    fn is_of_read_only_server(&self) -> bool {
        let (Self::Undone(error) | Self::Unknown(error)) = self;
        error.is_of_read_only_server()
    }
}

/// Who asks has to operate the installation, whatever the route asked for.
fn operator(who: &Identity) -> Result<Scope, ApiError> {
    allowed(Needs::Permission(Permission::SystemOperate), Some(who))?;
    Ok(Scope::tenant(who.tenant()).with_installation())
}

impl ApiState {
    /// Looks for who sends a request, before any tenant is known; sees no rows but what the doors of the database give.
    ///
    /// # Errors
    /// What `work` returns, or that the database cannot be asked.
    pub(crate) async fn recognise<T, F>(
        &self,
        _: &Recognising,
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
        self.sessions.run(Scope::nobody().read_only(), name, work).await
    }

    /// As [`Self::recognise`], where being looked for is itself to be noted: attempts to sign in are counted.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn count<T, F>(
        &self,
        _: &Recognising,
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
        self.sessions.run(Scope::nobody(), name, work).await
    }

    /// Notes something about who was recognised, in their tenant.
    ///
    /// # Errors
    /// What `work` returns, or that the database cannot be asked.
    pub(crate) async fn note<F>(
        &self,
        _: &Recognising,
        tenant: TenantId,
        name: &'static str,
        work: F,
    ) -> DbResult<()>
    where
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<()> + Work<&'r mut Conn, DbResult<()>, Fut: Send> + Send + Sync,
    {
        self.sessions.run(Scope::tenant(tenant), name, work).await
    }

    /// Tells another daemon of a change that is committed. A hint may be lost: whom it is for looks by itself as well. Sees no rows: it is no
    /// transaction of a tenant.
    pub(crate) async fn hint<F>(&self, whom: &'static str, work: F)
    where
        F: AsyncFn(&mut Conn) -> DbResult<()>,
    {
        let told = match self.sessions.lanes.conn().await {
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

    fn is_of_read_only_server(&self) -> bool {
        matches!(self, Self::Unavailable(error) if error.is_of_read_only_server())
    }
}
