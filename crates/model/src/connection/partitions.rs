//! Monthly partitions: created ahead, removed when they expire.
//!
//! History, output and events are partitioned by month. Migrations create the partitions around
//! their date, and the leader creates the following ones ([`make_ahead`]). Rows of a month without
//! a partition go to the default partition. Expired months are dropped, or detached and moved to
//! the schema `history_archive` (those of `maintenance` to `maintenance_archive`), which this
//! program never reads.
//!
//! Creating or removing a partition locks its parent exclusively for an instant. Every later
//! statement waits behind that lock request, so the request waits very briefly, and the next run
//! repeats it. A long query of history delays housekeeping, and never the end of an attempt. Each
//! partition is its own transaction; if the process dies, the next run does the rest.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Int4, Text, Timestamptz};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

use crate::{Conn, DbError, DbResult, connection::transaction};
use sched_domain::retention::HistoryExpiry;

/// Number of months ahead that have a partition; migrations create as many.
pub const MONTHS_AHEAD: i32 = 3;

/// Maximum wait for the lock on a partitioned table: the longest delay that a change of partitions
/// can cause to the end of an attempt.
const PATIENCE: &str = "SET LOCAL lock_timeout = '200ms'";

statement! {
    Missing = "partitions/partitions_missing.sql", (months: i32 as Int4) -> (Text, Text)
}

/// Creates the missing partitions of the coming months; returns their names.
///
/// A failure (rows of the month may be in the default partition) is logged and does not block the
/// rest.
pub async fn make_ahead(conn: &mut Conn) -> DbResult<Vec<String>> {
    let missing: Vec<(String, String)> = Missing { months: MONTHS_AHEAD }.load(conn).await?;
    let mut created = Vec::new();
    for (name, statement) in missing {
        let making = transaction::transact(conn, "make_partition", async |conn: &mut Conn| {
            conn.batch_execute(PATIENCE).await?;
            Ok::<_, DbError>(conn.batch_execute(&statement).await?)
        });
        match making.await {
            Ok(()) => created.push(name),
            Err(error) if error.is_outage() => return Err(error),
            Err(error @ DbError::TimedOut(_)) => {
                tracing::info!(
                    partition = name,
                    error = error.with_causes(),
                    "partition is in use; trying again later"
                );
            }
            Err(error) => {
                tracing::error!(partition = name, error = error.with_causes(), "creating a partition failed");
            }
        }
    }
    Ok(created)
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct ExpiredMonth {
    pub name: String,
    drop: String,
    detach: String,
}

statement! {
    Expired = "partitions/partitions_expired.sql", (before: DateTime<Utc> as Timestamptz) -> (Text, Text, Text)
}

/// The months that ended before `before`, oldest first.
pub async fn expired(conn: &mut Conn, before: DateTime<Utc>) -> DbResult<Vec<ExpiredMonth>> {
    Ok(Expired { before }.load(conn).await?)
}

/// Drops or detaches a month. Call it in a fenced transaction that does nothing else.
///
/// # Errors
/// [`DbError::TimedOut`] while the table is in use.
pub async fn remove(conn: &mut Conn, month: &ExpiredMonth, how: HistoryExpiry) -> DbResult<()> {
    conn.batch_execute(PATIENCE).await?;
    let statement = match how {
        HistoryExpiry::Drop => &month.drop,
        HistoryExpiry::Detach => &month.detach,
    };
    Ok(conn.batch_execute(statement).await?)
}
