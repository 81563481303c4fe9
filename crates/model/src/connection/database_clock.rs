//! The database's clock, the only clock that decides.

use chrono::{DateTime, Utc};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};

diesel::define_sql_function! {
    /// The server's wall clock; it advances within a transaction.
    fn clock_timestamp() -> Timestamptz;
}

pub async fn now(conn: &Conn) -> DbResult<DateTime<Utc>> {
    Ok(diesel::select(clock_timestamp()).get_result(&mut { conn }).await?)
}
