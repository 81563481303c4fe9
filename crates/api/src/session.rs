//! What a request does in the database: one transaction that reads, or one that changes and answers.
//!
//! The only door to the database: nobody else has the connections ([`crate::lanes`] keeps them for it), and every transaction begins by naming the tenant whose rows it may see,
//! which is that of the identity. A change, its entry in the audit log and the answer are one transaction: a process that
//! dies on any line has written nothing or all of it, and the client that heard nothing asks again. Rules are not decided here,
//! and no SQL is known.
//!
//! What belongs to the installation is behind a door of its own (`…_installation`), which only system operators pass, whatever the route.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::HttpResponse;
use sched_model::db::kept_answers::{self, Asked, Begun};
use sched_model::db::migrations::SchemaError;
use sched_model::db::notify::{self, Hint};
use sched_model::db::pool::{InvalidDatabaseSettings, PoolStatus};
use sched_model::db::roles::{API_ROLE, Scope};
use sched_model::db::tx::{TransactionError, Work, measured, read_in, transact_in};
use sched_model::db::{Conn, DatabaseSettings, DbError, DbResult, clock, startup, tenants, triggers};
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::{DEFAULT_TENANT, TenantId};
use sched_wire::IDEMPOTENCY_KEY;

use crate::error::ApiError;
use crate::events::reads::STATEMENT_WITHIN;
use crate::identity::{By, Identity, Recognising};
use crate::lanes::Lanes;
use crate::mistake::{Mistake, Reason};
use crate::permit::{Needs, allowed};
use crate::reply::{Reply, note_replay};
use crate::state::ApiState;

/// How long a look at the installation may take; who asked has given up then.
const SURVEY_WITHIN: Duration = Duration::from_secs(5);
/// How often a read that collides with a change of the schema, as few do, is run again.
const COLLISIONS: u32 = 4;
/// How long counting may take.
const TOTALS_WITHIN: Duration = Duration::from_secs(10);

/// What became of a change.
#[derive(Debug)]
pub(crate) struct Written<T> {
    /// The answer.
    pub(crate) response: HttpResponse,
    /// What the work gave besides, for hints after the commit; `None` when the answer is that of an earlier request.
    pub(crate) extra: Option<T>,
}

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
        clock::now(&*self.lanes.conn().await?).await.map(drop)
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
    /// As of [`triggers::at_once`].
    pub(crate) async fn trigger(
        &self,
        tenant: TenantId,
        orders: &[triggers::Order<'_>],
    ) -> DbResult<Option<Vec<triggers::Fate>>> {
        let mut conn = self.lanes.conn().await?;
        measured("trigger_jobs", triggers::at_once(&mut conn, tenant, Trigger::Api, orders)).await
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

/// Who asks has to operate the installation, whatever the route asked for.
fn operator(who: &Identity) -> Result<Scope, ApiError> {
    allowed(Needs::Permission(Permission::SystemOperate), Some(who))?;
    Ok(Scope::tenant(who.tenant()).with_installation())
}

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

    /// As [`Self::read`], in one round trip where the work asks for one thing, or for several at once ([`read_in`]). Its statements are planned once: they are those whose plan is the same whatever is asked for, and planning them takes longer than they do.
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
                kept_answers::keep(conn, asked, &reply.to_kept()).await?;
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

/// The answer that was given to the same request; `None` when it is to be done now.
async fn answered_before(conn: &mut Conn, asked: &Asked<'_>) -> Result<Option<Reply>, ApiError> {
    match kept_answers::begin(conn, asked).await? {
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
