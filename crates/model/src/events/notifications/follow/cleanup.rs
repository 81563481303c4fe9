//! Ends deliveries that no other step ends, and deletes old ones.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Timestamptz};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};

statement! {
    Prune = "notifications_prune.sql", (before: DateTime<Utc> as Timestamptz, limit: i64 as BigInt) -> BigInt
}

/// Deletes up to `limit` finished deliveries from before `before`; returns their number.
pub async fn prune(conn: &mut Conn, before: DateTime<Utc>, limit: i64) -> DbResult<u64> {
    let gone: i64 = Prune { before, limit }.get_result(conn).await?;
    Ok(u64::try_from(gone).unwrap_or(0))
}

/// Maximum wait of a delivery in seconds: a day. A later delivery is no longer news, and the
/// deliveries of a dead channel would stay forever.
const WAITING_SECONDS: f64 = 86_400.0;
/// Seconds after which a run's outcome is read directly, if the stream has not reported it.
const SENDING_SECONDS: f64 = 600.0;

statement! {
    EndStale = "notifications_tidy.sql", (
        waiting_seconds: f64 as Double,
        sending_seconds: f64 as Double,
        limit: i64 as BigInt,
    ) -> (BigInt, BigInt)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct CleanupResult {
    /// Deliveries that waited too long.
    pub expired: i64,
    /// Deliveries whose run had ended or was deleted without a report from the stream.
    pub unreported: i64,
}

/// Ends up to `limit` deliveries of each kind that nothing else ends. Call it in a fenced
/// transaction.
pub async fn end_stale(conn: &mut Conn, limit: i64) -> DbResult<CleanupResult> {
    let end_stale = EndStale { waiting_seconds: WAITING_SECONDS, sending_seconds: SENDING_SECONDS, limit };
    Ok(end_stale.get_result(conn).await?)
}
