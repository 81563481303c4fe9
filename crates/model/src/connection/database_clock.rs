//! The one clock that decides: the database's.

use chrono::{DateTime, Utc};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};

diesel::define_sql_function! {
    /// The server's wall clock, moving on within a transaction.
    fn clock_timestamp() -> Timestamptz;
}

/// What time it is, by the database.
pub async fn now(conn: &Conn) -> DbResult<DateTime<Utc>> {
    Ok(diesel::select(clock_timestamp()).get_result(&mut { conn }).await?)
}
