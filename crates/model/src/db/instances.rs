//! Scheduler processes and their leadership.
//!
//! At most one row is the leader's (a partial unique index sees to it). Taking over locks that row `FOR UPDATE`, which
//! waits for the leader's transactions in flight, because each of those holds it `FOR KEY SHARE` ([`super::tick::fence`]);
//! renewals are plain updates and disturb neither. Terms come from a sequence and are never reused. A heartbeat counts
//! as expired when it is older than the lease, or further in the future than the lease: after the database's clock was
//! set back, the living renew at once and only the dead keep a heartbeat from the future.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Double, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::error::ConstraintKind;
use super::schema::scheduler_instances;
use super::{Conn, DbError, DbResult, clock, tx};
use crate::domain::ids::{InstanceId, Term};
use crate::domain::instance::TermEnd;

/// A scheduler as it registers itself.
#[derive(Debug, Clone, Insertable)]
#[diesel(table_name = scheduler_instances, check_for_backend(diesel::pg::Pg))]
pub struct NewInstance {
    /// Random identity, made when the process started.
    pub id: InstanceId,
    /// Host, a label.
    pub hostname: String,
    /// Process id, a label.
    pub pid: i32,
    /// Version of the program.
    pub version: String,
}

/// A scheduler as it is registered.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = scheduler_instances, check_for_backend(diesel::pg::Pg))]
#[expect(missing_docs, reason = "the columns are documented in the schema")]
pub struct Instance {
    pub id: InstanceId,
    pub hostname: String,
    pub pid: i32,
    pub version: String,
    pub started_at: DateTime<Utc>,
    pub last_heartbeat: DateTime<Utc>,
    pub is_leader: bool,
    pub leader_since: Option<DateTime<Utc>>,
    pub term: Option<Term>,
}

/// What became of an attempt to take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOver {
    /// We lead, with this term.
    Leading(Term),
    /// Somebody else leads, and its lease holds (or it was faster).
    Held,
}

/// What became of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    /// Recorded; the term is ours if we lead.
    Recorded {
        /// The term we hold in the database.
        term: Option<Term>,
        /// The database's clock.
        at: DateTime<Utc>,
    },
    /// Our row is gone: we were taken for dead. Register again.
    Unregistered,
}

/// Registers a scheduler, or does nothing if it is registered.
///
/// # Errors
/// When the database cannot be asked.
pub async fn register(conn: &mut Conn, instance: &NewInstance) -> DbResult<()> {
    diesel::insert_into(scheduler_instances::table)
        .values(instance)
        .on_conflict_do_nothing()
        .execute(conn)
        .await?;
    Ok(())
}

/// Says that the scheduler lives; for the leader this renews the lease.
///
/// # Errors
/// When the database cannot be asked; the caller must then not assume that the lease was renewed.
pub async fn heartbeat(conn: &mut Conn, id: InstanceId) -> DbResult<Heartbeat> {
    let row: Option<(Option<Term>, DateTime<Utc>)> = diesel::update(scheduler_instances::table.find(id))
        .set(scheduler_instances::last_heartbeat.eq(clock::clock_timestamp()))
        .returning((scheduler_instances::term, scheduler_instances::last_heartbeat))
        .get_result(conn)
        .await
        .optional()?;
    Ok(row.map_or(Heartbeat::Unregistered, |(term, at)| Heartbeat::Recorded { term, at }))
}

statement! {
    /// The leader's row, without and with a lock.
    Leader = "leader.sql", (lease_seconds: f64 as Double) -> (BigInt, Bool)
}
statement! {
    LockLeader = "leader_lock.sql", (lease_seconds: f64 as Double) -> (BigInt, Bool)
}
statement! {
    Lead = "leader_begin_term.sql", (id: InstanceId as SqlUuid) -> BigInt
}
statement! {
    EndTerm = "leader_end_term.sql", (term: Term as BigInt, reason: TermEnd as Text) -> BigInt
}
statement! {
    LockTerm = "leader_lock_term.sql", (id: InstanceId as SqlUuid, term: Term as BigInt) -> BigInt
}

/// Takes over if nobody leads or the leader's lease has expired.
///
/// # Errors
/// When the database cannot be asked, or the old leader's transaction in flight outlasts the lock time-out; try again.
pub async fn take_over(conn: &mut Conn, id: InstanceId, lease: Duration) -> DbResult<TakeOver> {
    let lease_seconds = lease.as_secs_f64();
    let leader: Option<(Term, bool)> = Leader { lease_seconds }.get_result(conn).await.optional()?;
    if matches!(leader, Some((_, false))) {
        return Ok(TakeOver::Held);
    }
    let taken = tx::transact(conn, "take_over", async |conn: &mut Conn| {
        let leader: Option<(Term, bool)> = LockLeader { lease_seconds }.get_result(conn).await.optional()?;
        match leader {
            Some((_, false)) => return Ok(TakeOver::Held),
            Some((term, true)) => {
                EndTerm { term, reason: TermEnd::Expired }.execute(conn).await?;
            }
            None => {}
        }
        let term: Option<Term> = Lead { id }.get_result(conn).await.optional()?;
        // No row of ours: we were taken for dead and must register again first.
        Ok(term.map_or(TakeOver::Held, TakeOver::Leading))
    })
    .await;
    match taken {
        Err(DbError::Constraint { kind: ConstraintKind::Unique, .. }) => Ok(TakeOver::Held),
        result => result,
    }
}

/// Gives up leadership if it is still ours. Returns whether it was.
///
/// # Errors
/// When the database cannot be asked; the lease then expires by itself.
pub async fn resign(conn: &mut Conn, id: InstanceId, term: Term) -> DbResult<bool> {
    tx::transact(conn, "resign", async |conn: &mut Conn| {
        let ours: Option<Term> = LockTerm { id, term }.get_result(conn).await.optional()?;
        if ours.is_some() {
            EndTerm { term, reason: TermEnd::Resigned }.execute(conn).await?;
        }
        Ok(ours.is_some())
    })
    .await
}

/// Removes the registration of a scheduler that stops. A leader resigns first.
///
/// # Errors
/// When the database cannot be asked; the row is then removed as stale later.
pub async fn unregister(conn: &mut Conn, id: InstanceId) -> DbResult<()> {
    let row = scheduler_instances::table.find(id).filter(diesel::dsl::not(scheduler_instances::is_leader));
    diesel::delete(row).execute(conn).await?;
    Ok(())
}

statement! {
    /// Removes standbys that have been silent for long.
    RemoveStale = "instances_remove_stale.sql", (seconds: f64 as Double) -> SqlUuid
}

/// Removes registrations of schedulers that have been silent for `silence` and do not lead; returns them.
///
/// # Errors
/// When the database cannot be asked.
pub async fn remove_stale(conn: &mut Conn, silence: Duration) -> DbResult<Vec<InstanceId>> {
    Ok(RemoveStale { seconds: silence.as_secs_f64() }.load(conn).await?)
}

/// All registered schedulers, the leader first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn list(conn: &mut Conn) -> DbResult<Vec<Instance>> {
    let table = scheduler_instances::table;
    let order = (scheduler_instances::is_leader.desc(), scheduler_instances::started_at.asc());
    Ok(table.order(order).limit(1000).select(Instance::as_select()).load(conn).await?)
}
