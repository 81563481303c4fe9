//! Transactions: named, measured, and retried when they collide.

use std::time::Duration;

use diesel::connection::TransactionManagerStatus;
use diesel_async::{AsyncConnection, SimpleAsyncConnection, TransactionManager};
use rand::RngExt;

use super::pool::Pooled;
use crate::connection::row_security::Scope;
use crate::{Conn, DbError, DbResult};

/// How often a transaction that collides with others is run in all.
const ATTEMPTS: u32 = 5;
/// How long the end of a read may take before its connection is given up: nobody else waits for it, so nobody else would notice.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Runs `work` in one transaction and commits it if it returns `Ok`.
///
/// The name is a metric label. A serialization failure or deadlock runs `work` again, up to five times with a short
/// random pause, so `work` must be re-runnable and free of side effects outside the database. When the connection
/// breaks during the commit, the outcome is unknown ([`DbError::Unavailable`]): the caller reads back, or relies on
/// the statement's own key or token.
///
/// # Errors
/// What `work` returns, or what beginning or committing says.
pub async fn transact<T, E, F>(conn: &mut Conn, name: &'static str, work: F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F:
        AsyncFn(&'r mut Conn) -> Result<T, E> + Work<&'r mut Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    run(conn, name, "BEGIN", work).await
}

/// As [`transact`], of a program that acts for one tenant at a time: beginning says for whom, in the same round trip.
///
/// # Errors
/// As [`transact`]; also when the role may not be taken.
pub async fn transact_in<T, E, F>(conn: &mut Conn, scope: Scope, name: &'static str, work: F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F:
        AsyncFn(&'r mut Conn) -> Result<T, E> + Work<&'r mut Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    run(conn, name, &scope.begin(), work).await
}

/// As [`transact_in`], of work that only reads: beginning travels with its first statement, and nobody waits for the end. One round trip
/// where those are three.
///
/// The work may ask for several things at once. What it asks when the transaction could not be begun sees the rows of no tenant, and is
/// not told. It is run once: whoever has another connection may run it again when it collided, as what reads seldom does.
///
/// # Errors
/// As [`transact_in`].
pub async fn read_in<T, E, F>(mut conn: Pooled, scope: Scope, name: &'static str, work: &F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F: AsyncFn(&'r Conn) -> Result<T, E> + Work<&'r Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    let timer = Timer::start(name);
    // Whoever stops waiting leaves a transaction open: until its end is known, the pool is not to lend this connection to others.
    Manager::transaction_manager_status_mut(&mut *conn).set_in_error();
    let result = {
        let begin = scope.read_only().begin();
        let (mut first, shared): (&Conn, &Conn) = (&conn, &conn);
        // In this order, which is that of their first messages.
        let (begun, found) = futures_util::join!(first.batch_execute(&begin), work(shared));
        begun.map_err(|error| E::from(error.into())).and(found)
    };
    timer.stop(result.as_ref().err().is_none_or(|error| !error.is_failure()));
    if !result.as_ref().is_err_and(TransactionError::is_of_read_only_server) {
        hand_over(conn);
    }
    result
}

/// Has the end waited for by a task of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "whatever becomes of it, what it owns ends with it: the connection"
)]
fn hand_over(conn: Pooled) {
    tokio::spawn(end_reading(conn));
}

/// Ends a transaction of which nothing is to be kept, and gives its connection back; one that cannot be ended is closed.
async fn end_reading(mut conn: Pooled) {
    let shared: &Conn = &conn;
    let ended = tokio::time::timeout(END_WITHIN, { shared }.batch_execute("COMMIT")).await;
    match ended {
        Ok(Ok(())) => {
            *Manager::transaction_manager_status_mut(&mut *conn) = TransactionManagerStatus::default();
        }
        Ok(Err(error)) => tracing::debug!(%error, "A read could not be ended; its connection is closed."),
        Err(_elapsed) => tracing::warn!("The database does not end a read; its connection is closed."),
    }
}

async fn run<T, E, F>(conn: &mut Conn, name: &'static str, begin: &str, work: F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F:
        AsyncFn(&'r mut Conn) -> Result<T, E> + Work<&'r mut Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    let mut attempt = 1;
    loop {
        let timer = Timer::start(name);
        let result = once(conn, begin, &work).await;
        timer.stop(result.as_ref().err().is_none_or(|error| !error.is_failure()));
        match result {
            Err(error) if error.is_retryable() && attempt < ATTEMPTS => {
                metrics::counter!("sched_db_transaction_retries_total", "transaction" => name).increment(1);
                let pause = Duration::from_millis(rand::rng().random_range(1..=10 << attempt));
                tokio::time::sleep(pause).await;
                attempt += 1;
            }
            result => return result,
        }
    }
}

type Manager = <Conn as AsyncConnection>::TransactionManager;

async fn once<T, E, F>(conn: &mut Conn, begin: &str, work: &F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F:
        AsyncFn(&'r mut Conn) -> Result<T, E> + Work<&'r mut Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    Manager::begin_transaction_sql(conn, begin).await.map_err(DbError::from)?;
    match work(&mut *conn).await {
        Ok(value) => {
            Manager::commit_transaction(conn).await.map_err(DbError::from)?;
            Ok(value)
        }
        Err(error) => {
            if let Err(rollback) = Manager::rollback_transaction(conn).await {
                // The first error says why; the server rolls back by itself when the connection is gone.
                tracing::debug!(error = %rollback, "Rolling back failed.");
            }
            leave_read_only(conn, &error);
            Err(error)
        }
    }
}

/// After an error that says that the server takes no writes: has the pool drop the connection, so that the next one is made to a server
/// that does. For statements that are no transaction of their own making.
pub(crate) fn leave_read_only<E: TransactionError>(conn: &mut Conn, error: &E) {
    if error.is_of_read_only_server() {
        Manager::transaction_manager_status_mut(conn).set_in_error();
    }
}

/// After an error of a statement that is a transaction of its own: has the pool drop a connection that is lost.
///
/// It would notice by itself, but a moment later, and give it to the next who asks.
pub(crate) fn leave_lost(conn: &mut Conn, error: &DbError) {
    if error.is_outage() {
        Manager::transaction_manager_status_mut(conn).set_in_error();
    }
}

/// An async closure whose future can be sent between threads; the language cannot say this of `AsyncFn` itself yet.
pub trait Work<A, R>: Fn(A) -> <Self as Work<A, R>>::Fut {
    /// The future.
    type Fut: Future<Output = R>;
}

impl<F, A, R, Fut> Work<A, R> for F
where
    F: Fn(A) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}

/// Errors a transaction may return: they know whether running it again may help.
pub trait TransactionError: From<DbError> {
    /// Whether the whole transaction may simply be run again.
    fn is_retryable(&self) -> bool;

    /// Whether the server takes no writes, so that the connection to it is of no use.
    fn is_of_read_only_server(&self) -> bool {
        false
    }

    /// Whether it is one to those who count errors; otherwise it is no more than a reason to roll back.
    fn is_failure(&self) -> bool {
        true
    }
}

impl TransactionError for DbError {
    fn is_retryable(&self) -> bool {
        self.is_retryable()
    }

    fn is_of_read_only_server(&self) -> bool {
        self.is_of_read_only_server()
    }
}

/// Measures one statement or transaction under a name.
///
/// # Errors
/// What `work` returns.
pub async fn measured<T>(name: &'static str, work: impl Future<Output = DbResult<T>>) -> DbResult<T> {
    let timer = Timer::start(name);
    let result = work.await;
    timer.stop(result.is_ok());
    result
}

struct Timer {
    name: &'static str,
    started: std::time::Instant,
}

impl Timer {
    #[expect(
        clippy::disallowed_methods,
        reason = "measures a duration; this crate does not depend on the runtime's clock"
    )]
    fn start(name: &'static str) -> Self {
        Self { name, started: std::time::Instant::now() }
    }

    fn stop(self, succeeded: bool) {
        let outcome = if succeeded { "ok" } else { "error" };
        metrics::histogram!("sched_db_transaction_seconds", "transaction" => self.name, "outcome" => outcome)
            .record(self.started.elapsed().as_secs_f64());
    }
}
