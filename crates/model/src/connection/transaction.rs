//! Transactions: named, measured, and retried on conflicts.

use std::time::Duration;

use diesel::connection::TransactionManagerStatus;
use diesel_async::{AsyncConnection, SimpleAsyncConnection, TransactionManager};
use rand::RngExt;

use super::pool::Pooled;
use crate::connection::row_security::Scope;
use crate::{Conn, DbError, DbResult};

const ATTEMPTS: u32 = 5;
/// Timeout for the end of a read. Then the connection is closed: no caller waits for this end, so
/// no caller would notice.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Runs `work` in one transaction and commits it if it returns `Ok`.
///
/// The name is a metric label. A serialization failure or deadlock runs `work` again, up to five
/// times with a short random pause: `work` must be repeatable and free of side effects outside the
/// database. If the connection breaks during the commit, the outcome is unknown
/// ([`DbError::Unavailable`]): the caller reads back, or relies on the statement's own key or token.
pub async fn transact<T, E, F>(conn: &mut Conn, name: &'static str, work: F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F:
        AsyncFn(&'r mut Conn) -> Result<T, E> + Work<&'r mut Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    run(conn, name, "BEGIN", work).await
}

/// As [`transact`], in a scope that BEGIN sets in the same round trip.
///
/// # Errors
/// As [`transact`]; also if the role cannot be set.
pub async fn transact_in<T, E, F>(conn: &mut Conn, scope: Scope, name: &'static str, work: F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F:
        AsyncFn(&'r mut Conn) -> Result<T, E> + Work<&'r mut Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    run(conn, name, &scope.begin(), work).await
}

/// As [`transact_in`], for read-only work: BEGIN travels with the first statement, and the caller
/// does not wait for the end. One round trip instead of three.
///
/// The work may send several queries at once. If BEGIN failed, its queries see no rows of tenants,
/// and their results are dropped. The work runs once; the caller may repeat it after a conflict.
pub async fn read_in<T, E, F>(mut conn: Pooled, scope: Scope, name: &'static str, work: &F) -> Result<T, E>
where
    T: Send,
    E: TransactionError + Send,
    for<'r> F: AsyncFn(&'r Conn) -> Result<T, E> + Work<&'r Conn, Result<T, E>, Fut: Send> + Send + Sync,
{
    let timer = Timer::start(name);
    // A dropped caller leaves a transaction open: until it ends, the pool must not reuse this
    // connection.
    Manager::transaction_manager_status_mut(&mut *conn).set_in_error();
    let result = {
        let begin = scope.read_only().begin();
        let (mut first, shared): (&Conn, &Conn) = (&conn, &conn);
        // The order of their first messages.
        let (begun, found) = futures_util::join!(first.batch_execute(&begin), work(shared));
        begun.map_err(|error| E::from(error.into())).and(found)
    };
    timer.stop(result.as_ref().err().is_none_or(|error| !error.is_failure()));
    if !result.as_ref().is_err_and(TransactionError::is_of_read_only_server) {
        hand_over(conn);
    }
    result
}

#[expect(clippy::disallowed_methods, reason = "the connection that it owns ends with it in any case")]
fn hand_over(conn: Pooled) {
    tokio::spawn(end_reading(conn));
}

/// Ends a read-only transaction and returns its connection to the pool. A connection whose
/// transaction does not end is closed.
async fn end_reading(mut conn: Pooled) {
    let shared: &Conn = &conn;
    let ended = tokio::time::timeout(END_WITHIN, { shared }.batch_execute("COMMIT")).await;
    match ended {
        Ok(Ok(())) => {
            *Manager::transaction_manager_status_mut(&mut *conn) = TransactionManagerStatus::default();
        }
        Ok(Err(error)) => tracing::debug!(%error, "ending a read failed; closing its connection"),
        Err(_elapsed) => tracing::warn!("ending a read timed out; closing its connection"),
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
                // The first error is the cause; the server rolls back when the connection is gone.
                tracing::debug!(error = %rollback, "rollback failed");
            }
            leave_read_only(conn, &error);
            Err(error)
        }
    }
}

/// Call it after an error of a read-only server: the pool drops the connection, so the next one
/// goes to a server that accepts writes. For statements outside [`transact`].
pub(crate) fn leave_read_only<E: TransactionError>(conn: &mut Conn, error: &E) {
    if error.is_of_read_only_server() {
        Manager::transaction_manager_status_mut(conn).set_in_error();
    }
}

/// An async closure with a `Send` future, which `AsyncFn` cannot express.
pub trait Work<A, R>: Fn(A) -> <Self as Work<A, R>>::Fut {
    type Fut: Future<Output = R>;
}

impl<F, A, R, Fut> Work<A, R> for F
where
    F: Fn(A) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}

pub trait TransactionError: From<DbError> {
    fn is_retryable(&self) -> bool;

    /// Whether the server accepts no writes, so that its connection is useless.
    fn is_of_read_only_server(&self) -> bool {
        false
    }

    /// Whether metrics count it as an error; otherwise it is only a reason to roll back.
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
