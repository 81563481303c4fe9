//! Running transactions, and the server that the positions of the stream belong to.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Nullable, Timestamptz};
use diesel_async::RunQueryDsl;

use super::{EventKey, Mark};
use crate::{Conn, DbResult};

/// A running transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Running {
    /// Its number.
    pub transaction: i64,
    /// Whether it belongs to another database of the server.
    pub is_elsewhere: bool,
    /// Whether it may have written events.
    pub has_events: bool,
    /// Whether it still ran when it was looked up.
    pub is_found: bool,
    /// Its server process; `None` for a prepared transaction.
    pub process: Option<i32>,
}

statement! {
    RunningNow = "events_running.sql", () -> (BigInt, Bool, Bool, Bool, Nullable<Int4>)
}

/// The running transactions of the whole server. More expensive than [`super::look`]: call it when the
/// stream is blocked.
pub async fn running(conn: &mut Conn) -> DbResult<Vec<Running>> {
    Ok(RunningNow {}.load(conn).await?)
}

statement! {
    OpenNow = "events_open.sql", () -> (BigInt, Array<BigInt>)
}

/// The number of the next transaction, and those of the running transactions of the whole server.
pub async fn open_transactions(conn: &mut Conn) -> DbResult<(i64, Vec<i64>)> {
    Ok(OpenNow {}.get_result(conn).await?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Origin {
    /// Identifies the server; copies of its files count as the same server, a restored dump does
    /// not.
    pub server: i64,
    /// Number of the next transaction.
    pub next_transaction: i64,
    /// Beginning of the oldest stored month.
    pub oldest: Option<DateTime<Utc>>,
    /// Whether the event of the given mark exists.
    pub is_there: bool,
}

statement! {
    OriginOf = "events_origin.sql", (transaction: i64 as BigInt, id: i64 as BigInt, at: DateTime<Utc> as Timestamptz)
        -> (BigInt, BigInt, Nullable<Timestamptz>, Bool)
}

/// The present origin of positions, and whether a mark is still valid in it. Sees the events that
/// the transaction may see.
pub async fn origin(conn: &mut Conn, mark: Mark) -> DbResult<Origin> {
    let Mark { key: EventKey { transaction, id }, at } = mark;
    Ok(OriginOf { transaction, id, at }.get_result(conn).await?)
}

statement! {
    SettleForeign = "events_settle_foreign.sql", (limit: i64 as BigInt) -> BigInt
}

/// Moves the first foreign events, which came with a dump of another server, before all events
/// written here, at most `limit`; returns their number.
pub async fn settle_foreign(conn: &mut Conn, limit: i64) -> DbResult<u64> {
    let settled: i64 = SettleForeign { limit }.get_result(conn).await?;
    Ok(u64::try_from(settled).unwrap_or(0))
}
