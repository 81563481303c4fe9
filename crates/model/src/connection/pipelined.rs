//! A short write transaction with fewer round trips: its begin travels with its first statement.
//!
//! It runs once; a caller may repeat it after a conflict.
//!
//! Later statements wait for the begin: if it failed, they would run outside the transaction,
//! without the API's role and tenant. The same holds for the commit: an unprepared statement is
//! sent only after the answer to its preparation, so a commit sent along could overtake it.

use diesel::QueryResult;
use diesel::connection::TransactionManagerStatus;
use diesel_async::{AsyncConnection, SimpleAsyncConnection, TransactionManager};

use super::notify;
use super::row_security::Scope;
use crate::{Conn, DbError, DbResult};

type Manager = <Conn as AsyncConnection>::TransactionManager;

/// If dropped before [`Self::end`] returns, the pool closes the connection: the transaction may be
/// open, or its outcome unknown.
pub(crate) struct Pipelined<'c> {
    conn: &'c mut Conn,
}

impl<'c> Pipelined<'c> {
    pub(crate) fn new(conn: &'c mut Conn) -> Self {
        Manager::transaction_manager_status_mut(conn).set_in_error();
        Self { conn }
    }

    pub(crate) fn conn(&self) -> &Conn {
        self.conn
    }

    /// Begins the transaction and sends the first statement before the answer to the begin. That
    /// statement may lock and read. If it writes, it checks the setting of the tenant: without a
    /// begin it is a separate transaction.
    pub(crate) async fn begin<T>(
        &self,
        scope: Scope,
        first: impl Future<Output = QueryResult<T>>,
    ) -> DbResult<T> {
        self.begin_with(&scope.begin(), first).await?
    }

    /// As [`Self::begin`], with the text of the begin. The first statement may write if the caller
    /// handles an error as an unknown outcome.
    ///
    /// # Errors
    /// The outer error is that of the begin, the inner one that of the first statement.
    pub(crate) async fn begin_with<T>(
        &self,
        begin: &str,
        first: impl Future<Output = QueryResult<T>>,
    ) -> DbResult<DbResult<T>> {
        let mut conn: &Conn = self.conn;
        // The order of their first messages.
        let (begun, found) = futures_util::join!(conn.batch_execute(begin), first);
        begun?;
        Ok(found.map_err(DbError::from))
    }

    /// As [`Self::end`]. After `Ok`, the notification of workers is sent before the answer to the
    /// commit: the order on the connection keeps it behind the commit, and it wakes the workers one
    /// round trip earlier. A lost notification is not an error.
    pub(crate) async fn end_and_notify<T>(self, done: DbResult<T>, queues: &[String]) -> DbResult<T> {
        if done.is_err() {
            return self.end(done).await;
        }
        let mut conn: &Conn = self.conn;
        // The order of their first messages.
        let (committed, notified) = futures_util::join!(
            conn.batch_execute("COMMIT"),
            notify::send_dispatches_waiting(self.conn, queues)
        );
        committed?;
        if let Err(error) = notified {
            tracing::debug!(
                error = error.with_causes(),
                "notifying the workers failed; they find the work at their next poll"
            );
        }
        *Manager::transaction_manager_status_mut(self.conn) = TransactionManagerStatus::default();
        done
    }

    /// Commits after `Ok`, rolls back after an error.
    ///
    /// # Errors
    /// `done`, or a failed commit. After an outage ([`DbError::is_outage`]) the outcome is unknown;
    /// after any other error nothing was written.
    pub(crate) async fn end<T>(self, done: DbResult<T>) -> DbResult<T> {
        let mut conn: &Conn = self.conn;
        let is_usable = match &done {
            Ok(_) => {
                conn.batch_execute("COMMIT").await.map_err(DbError::from)?;
                true
            }
            // The pool closes these connections.
            Err(error) if error.is_outage() || error.is_of_read_only_server() => false,
            Err(_) => conn.batch_execute("ROLLBACK").await.is_ok(),
        };
        if is_usable {
            *Manager::transaction_manager_status_mut(self.conn) = TransactionManagerStatus::default();
        }
        done
    }
}
