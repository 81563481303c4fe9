//! Running transactions, and the server that the positions of the stream belong to.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Nullable, Timestamptz};
use diesel_async::RunQueryDsl;

use super::{EventKey, Mark};
use crate::{Conn, DbResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Running {
    pub transaction: i64,
    pub is_elsewhere: bool,
    pub has_events: bool,
    /// Whether the transaction still ran when it was looked up.
    pub is_found: bool,
    /// Its server process; `None` for a prepared transaction.
    pub process: Option<i32>,
}

statement! {
    RunningNow = "events_running.sql", () -> (BigInt, Bool, Bool, Bool, Nullable<Int4>)
}

/// The running transactions of the whole server. More expensive than [`super::read`]: call it when the
/// stream is blocked.
pub async fn running(conn: &mut Conn) -> DbResult<Vec<Running>> {
    Ok(RunningNow {}.load(conn).await?)
}

statement! {
    OpenNow = "events_open.sql", () -> (BigInt, Array<BigInt>)
}

/// The next transaction number, and the running transactions of the whole server.
pub async fn open_transactions(conn: &mut Conn) -> DbResult<(i64, Vec<i64>)> {
    Ok(OpenNow {}.get_result(conn).await?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Origin {
    /// Identifies the server; copies of its files count as the same server, a restored dump does
    /// not.
    pub server: i64,
    pub next_transaction: i64,
    pub oldest: Option<DateTime<Utc>>,
    pub is_there: bool,
}

statement! {
    OriginOf = "events_origin.sql", (transaction: i64 as BigInt, id: i64 as BigInt, at: DateTime<Utc> as Timestamptz)
        -> (BigInt, BigInt, Nullable<Timestamptz>, Bool)
}

/// The present origin of positions, and whether a mark is still valid. Sees the events visible to
/// the transaction.
pub async fn origin(conn: &mut Conn, mark: Mark) -> DbResult<Origin> {
    let Mark { key: EventKey { transaction, id }, at } = mark;
    Ok(OriginOf { transaction, id, at }.get_result(conn).await?)
}

statement! {
    SettleForeign = "events_settle_foreign.sql", (limit: i64 as BigInt) -> BigInt
}

/// Moves the first `limit` foreign events, which came with a dump of another server, before all
/// events written here; returns their number.
pub async fn settle_foreign(conn: &mut Conn, limit: i64) -> DbResult<u64> {
    let settled: i64 = SettleForeign { limit }.get_result(conn).await?;
    Ok(u64::try_from(settled).unwrap_or(0))
}
