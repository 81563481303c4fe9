//! Monthly partitions: made ahead, and removed behind.
//!
//! History, output and events are partitioned by month. The migrations make the months around their day; the leader calls
//! [`make_ahead`] so that the following ones exist long before they are needed. Rows of a month without a partition go to
//! the default partition and are not lost. Months older than retention allows are dropped whole, or detached and put into the schema
//! `history_archive` (those of `maintenance` into `maintenance_archive`), where nothing of ours looks any more.
//!
//! Making or removing a partition locks its parent against everybody for an instant, and whoever comes while it waits for that
//! lock waits behind it. So it waits very shortly, gives up, and is tried again with the next run: a long query of history delays
//! housekeeping, and never the end of an attempt. Each is a transaction of its own; a process that dies leaves the rest to the next run.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Int4, Text, Timestamptz};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

use crate::{Conn, DbError, DbResult, connection::transaction};
use sched_domain::retention::HistoryExpiry;

/// How many months ahead of the present one have a partition; the migrations make as many.
pub const MONTHS_AHEAD: i32 = 3;

/// Longest wait for the lock on a partitioned table: what the end of an attempt may be delayed by it.
const PATIENCE: &str = "SET LOCAL lock_timeout = '200ms'";

statement! {
    /// The partitions that are missing, as statements that make them.
    Missing = "partitions/partitions_missing.sql", (months: i32 as Int4) -> (Text, Text)
}

/// Makes the partitions of the coming months that do not exist yet; returns their names.
///
/// One that cannot be made (rows of its month may lie in the default partition) is told in the log and keeps no other from
/// being made.
///
/// # Errors
/// When the database cannot be asked; trying again later is right.
pub async fn make_ahead(conn: &mut Conn) -> DbResult<Vec<String>> {
    let missing: Vec<(String, String)> = Missing { months: MONTHS_AHEAD }.load(conn).await?;
    let mut made = Vec::new();
    for (name, statement) in missing {
        let making = transaction::transact(conn, "make_partition", async |conn: &mut Conn| {
            conn.batch_execute(PATIENCE).await?;
            Ok::<_, DbError>(conn.batch_execute(&statement).await?)
        });
        match making.await {
            Ok(()) => made.push(name),
            Err(error) if error.is_outage() => return Err(error),
            Err(error @ DbError::TimedOut(_)) => {
                tracing::info!(
                    partition = name,
                    error = error.with_causes(),
                    "A partition is in use; trying again later."
                );
            }
            Err(error) => {
                tracing::error!(partition = name, error = error.with_causes(), "A partition cannot be made.");
            }
        }
    }
    Ok(made)
}

/// A month that is older than retention allows.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct ExpiredMonth {
    /// Its partition.
    pub name: String,
    drop: String,
    detach: String,
}

statement! {
    Expired = "partitions/partitions_expired.sql", (before: DateTime<Utc> as Timestamptz) -> (Text, Text, Text)
}

/// The months that were over before an instant, oldest first.
pub async fn expired(conn: &mut Conn, before: DateTime<Utc>) -> DbResult<Vec<ExpiredMonth>> {
    Ok(Expired { before }.load(conn).await?)
}

/// Drops or detaches a month. Call it in a fenced transaction that does nothing else.
///
/// # Errors
/// [`DbError::TimedOut`] when somebody uses the table: try again later. Otherwise when the database refuses.
pub async fn remove(conn: &mut Conn, month: &ExpiredMonth, how: HistoryExpiry) -> DbResult<()> {
    conn.batch_execute(PATIENCE).await?;
    let statement = match how {
        HistoryExpiry::Drop => &month.drop,
        HistoryExpiry::Detach => &month.detach,
    };
    Ok(conn.batch_execute(statement).await?)
}
