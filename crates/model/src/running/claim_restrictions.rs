//! The flag that a pause or a limit may keep runs from being claimed.
//!
//! The claim of a single run ([`crate::running::claims::claim_lone`]) reads the flag in place of all
//! pauses and limits. Triggers set it at the commit of a transaction that pauses or limits, and keep
//! its row locked until then. The leader clears it after the last of them.
//!
//! # Races
//! A claim whose snapshot is older than the commit of a pause is a claim before the pause, as for
//! any claim. The flag is cleared in a statement after the one that locks its row: the later
//! snapshot contains every pause whose commit held the lock. A pause that has not reached its commit
//! sets the flag again.

use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};

statement! {
    Lock = "claim_restrictions/claim_restrictions_lock.sql", () -> Bool
}

statement! {
    Lift = "claim_restrictions/claim_restrictions_lift.sql", () -> Bool
}

/// Clears the flag if nothing is paused or limited; returns whether it was cleared. Call it last in
/// a fenced transaction, which keeps the row locked until its end.
///
/// Does not wait for a transaction that pauses or limits: the next call decides.
pub async fn lift(conn: &mut Conn) -> DbResult<bool> {
    let locked: Vec<bool> = Lock {}.load(conn).await?;
    if locked.is_empty() {
        return Ok(false);
    }
    let lifted: Vec<bool> = Lift {}.load(conn).await?;
    Ok(!lifted.is_empty())
}
