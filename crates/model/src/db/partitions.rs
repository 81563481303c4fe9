//! Monthly partitions, made ahead.
//!
//! History, output and events are partitioned by month. The migrations make the months around their day; the leader calls
//! [`make_ahead`] so that the following ones exist long before they are needed. Rows of a month without a partition go to
//! the default partition and are not lost.

use diesel::sql_types::{Int4, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

use super::{Conn, DbError, DbResult};

/// How many months ahead of the present one have a partition; the migrations make as many.
pub const MONTHS_AHEAD: i32 = 3;

statement! {
    /// The partitions that are missing, as statements that make them.
    Missing = "partitions_missing.sql", (months: i32 as Int4) -> (Text, Text)
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
        match conn.batch_execute(&statement).await.map_err(DbError::from) {
            Ok(()) => made.push(name),
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => {
                tracing::error!(partition = name, error = error.with_causes(), "A partition cannot be made.");
            }
        }
    }
    Ok(made)
}
