//! Months of history that retention has detached: reading them piece by piece, and dropping them once they are kept elsewhere.
//!
//! They lie in the schemas `history_archive` and `maintenance_archive` ([`crate::connection::partitions`]), where nothing writes any more. So a month may
//! be read in as many short statements as it takes, with pauses as long as storage needs, and all of them together are one state of it. A
//! process that dies in between has changed nothing.
//!
//! # Design notes
//! - Rows are read by ranges of the blocks they lie in. The archive has no index that would serve, a cursor would hold a transaction open for
//!   as long as storage takes, and a range of blocks costs the same at the end of the month as at its beginning.
//! - The statements about a month are made by the one that finds it, because only the server can quote names safely.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

use crate::{Conn, DbResult};

diesel::define_sql_function! {
    /// A setting of the session, as text.
    fn current_setting(name: Text) -> Text;
}

statement! {
    Months = "archive/archive_months.sql", () -> (Text, BigInt, BigInt, Text, Text, Text)
}

/// A detached month.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct DetachedMonth {
    /// Its table with its schema, such as `history_archive.events_y2026m01`.
    pub name: String,
    /// The table's number on its server: another table of the same name has another.
    pub oid: i64,
    /// How many blocks its rows lie in.
    pub blocks: i64,
    read: String,
    count: String,
    drop: String,
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    rows: i64,
}

/// The months that wait to be archived, oldest first.
pub async fn months(conn: &mut Conn) -> DbResult<Vec<DetachedMonth>> {
    Ok(Months {}.load(conn).await?)
}

/// The rows in `count` blocks from `first` on, each as one line of JSON.
pub async fn rows(conn: &mut Conn, month: &DetachedMonth, first: i64, count: i64) -> DbResult<Vec<String>> {
    let (from, to) = range(first, count);
    let lines: Vec<Line> =
        diesel::sql_query(&month.read).bind::<Text, _>(from).bind::<Text, _>(to).load(conn).await?;
    Ok(lines.into_iter().map(|line| line.line).collect())
}

/// How many rows the month has, counted in statements that each read `step` blocks, so that none of them takes long however large it is.
pub async fn count(conn: &mut Conn, month: &DetachedMonth, step: i64) -> DbResult<u64> {
    let (mut rows, mut first, step) = (0, 0, step.max(1));
    while first < month.blocks {
        let (from, to) = range(first, step);
        let count: Count = diesel::sql_query(&month.count)
            .bind::<Text, _>(from)
            .bind::<Text, _>(to)
            .get_result(conn)
            .await?;
        rows += u64::try_from(count.rows).unwrap_or(0);
        first += step;
    }
    Ok(rows)
}

/// The places of rows in `count` blocks from `first` on: from the first of these, to before the second.
fn range(first: i64, count: i64) -> (String, String) {
    (format!("({first},0)"), format!("({},0)", first.saturating_add(count)))
}

/// Drops the month. Call it when its rows are known to be kept elsewhere, and not before.
///
/// # Errors
/// When the database refuses, for instance because somebody reads the table for longer than the lock time-out.
pub async fn drop_month(conn: &mut Conn, month: &DetachedMonth) -> DbResult<()> {
    Ok(conn.batch_execute(&month.drop).await?)
}

/// The major version of the server.
pub async fn server_version(conn: &mut Conn) -> DbResult<u32> {
    let number: String = diesel::select(current_setting("server_version_num")).get_result(conn).await?;
    Ok(number.parse::<u32>().unwrap_or(0) / 10_000)
}
