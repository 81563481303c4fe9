//! Detached months of history: reads them in pieces, and drops them once they are archived
//! elsewhere.
//!
//! They are in the schemas `history_archive` and `maintenance_archive`
//! ([`crate::connection::partitions`]), where no statement writes. So any number of short
//! statements read one consistent state of a month. A process that dies in between has changed
//! nothing.
//!
//! # Design notes
//! - Rows are read by ranges of blocks: the archive has no suitable index, and a cursor would hold
//!   a transaction open while the storage works. A range costs the same everywhere in the month.
//! - The statement that finds a month also generates the statements that read it, because only the
//!   server can quote names safely.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

use crate::{Conn, DbResult};

diesel::define_sql_function! {
    fn current_setting(name: Text) -> Text;
}

statement! {
    Months = "archive/archive_months.sql", () -> (Text, BigInt, BigInt, Text, Text, Text)
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct DetachedMonth {
    /// Name of the table with its schema, such as `history_archive.events_y2026m01`.
    pub name: String,
    /// OID of the table: another table of the same name has another.
    pub oid: i64,
    pub blocks: i64,
    read: String,
    count: String,
    drop: String,
}

#[derive(QueryableByName)]
struct ArchiveLine {
    #[diesel(sql_type = Text)]
    line: String,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    rows: i64,
}

pub async fn months(conn: &mut Conn) -> DbResult<Vec<DetachedMonth>> {
    Ok(Months {}.load(conn).await?)
}

/// The rows in `count` blocks from `first` on, each as one line of JSON.
pub async fn rows(conn: &mut Conn, month: &DetachedMonth, first: i64, count: i64) -> DbResult<Vec<String>> {
    let (from, to) = range(first, count);
    let lines: Vec<ArchiveLine> =
        diesel::sql_query(&month.read).bind::<Text, _>(from).bind::<Text, _>(to).load(conn).await?;
    Ok(lines.into_iter().map(|line| line.line).collect())
}

/// Number of rows of the month, counted in statements that each read `step` blocks, so that none
/// takes long.
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

/// Row addresses of `count` blocks from `first` on: inclusive start, exclusive end.
fn range(first: i64, count: i64) -> (String, String) {
    (format!("({first},0)"), format!("({},0)", first.saturating_add(count)))
}

/// Drops the month. Call it only after its rows are archived elsewhere.
///
/// # Errors
/// For example if another statement reads the table for longer than the lock timeout.
pub async fn drop_month(conn: &mut Conn, month: &DetachedMonth) -> DbResult<()> {
    Ok(conn.batch_execute(&month.drop).await?)
}

pub async fn server_version(conn: &mut Conn) -> DbResult<u32> {
    let number: String = diesel::select(current_setting("server_version_num")).get_result(conn).await?;
    Ok(number.parse::<u32>().unwrap_or(0) / 10_000)
}
