//! Scheduler processes and their leadership.
//!
//! A partial unique index allows at most one leader. A take-over locks its row `FOR UPDATE`, which
//! waits for the leader's transactions in flight: each holds it `FOR KEY SHARE`
//! ([`crate::dispatching::tick::fence`]). Renewals are plain updates and conflict with neither.
//! Terms come from a sequence and are never reused. A heartbeat expires when it is older than the
//! lease, or further in the future than the lease. After the database's clock was set back, live
//! schedulers renew at once, and only dead ones keep a heartbeat from the future.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::connection::error::ConstraintKind;
use crate::events::append::{self, NewEvent};
use crate::schema::scheduler_instances;
use crate::{Conn, DbError, DbResult, connection::transaction};
use sched_domain::ids::{InstanceId, Term};
use sched_domain::instance::TermEnd;

#[derive(Debug, Clone, Insertable)]
#[diesel(table_name = scheduler_instances, check_for_backend(diesel::pg::Pg))]
pub struct NewInstance {
    /// Random id, generated when the process started.
    pub id: InstanceId,
    /// A label.
    pub hostname: String,
    /// A label.
    pub pid: i32,
    pub version: String,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = scheduler_instances, check_for_backend(diesel::pg::Pg))]
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
    pub step_down_requested_at: Option<DateTime<Utc>>,
    pub step_down_term: Option<Term>,
    pub clock_offset_seconds: Option<f64>,
}

impl Instance {
    /// Time of the request to step down from the present term.
    #[must_use]
    pub fn step_down_requested_at(&self) -> Option<DateTime<Utc>> {
        self.step_down_requested_at.filter(|_| self.term.is_some() && self.term == self.step_down_term)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOver {
    /// This scheduler leads, with this term.
    Leading(Term),
    /// Another scheduler leads and its lease holds, or the other scheduler was faster.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    /// Recorded; the term belongs to this scheduler if it leads.
    Recorded {
        /// The term of this scheduler according to the database.
        term: Option<Term>,
        leader_since: Option<DateTime<Utc>>,
        /// An operator requested that this scheduler steps down from this term.
        step_down: bool,
        /// The database's clock.
        at: DateTime<Utc>,
    },
    /// The row was removed because this scheduler seemed dead. Register again.
    Unregistered,
}

/// Registers a scheduler; does nothing if it is registered.
pub async fn register(conn: &mut Conn, instance: &NewInstance) -> DbResult<()> {
    diesel::insert_into(scheduler_instances::table)
        .values(instance)
        .on_conflict_do_nothing()
        .execute(conn)
        .await?;
    Ok(())
}

statement! {
    /// A named statement: an update of the query builder is prepared again each time (two
    /// transactions).
    Renew<'a> = "leadership/leader_heartbeat.sql",
    (id: InstanceId as SqlUuid, clock_offset: Option<f64> as Nullable<Double>, failing_tasks: &'a [&'a str] as Array<Text>)
    -> (Nullable<BigInt>, Nullable<Timestamptz>, Nullable<BigInt>, Timestamptz)
}

/// Records a heartbeat; for the leader this renews the lease.
///
/// `clock_offset`: seconds of the database's clock ahead of the host's. `failing_tasks`: tasks of the
/// leader that keep failing. Both are for operators.
///
/// # Errors
/// The caller must not assume a renewed lease.
pub async fn heartbeat(
    conn: &mut Conn,
    id: InstanceId,
    clock_offset: Option<f64>,
    failing_tasks: &[&str],
) -> DbResult<Heartbeat> {
    type Row = (Option<Term>, Option<DateTime<Utc>>, Option<Term>, DateTime<Utc>);
    let row: Option<Row> = Renew { id, clock_offset, failing_tasks }.get_result(conn).await.optional()?;
    Ok(row.map_or(Heartbeat::Unregistered, |(term, leader_since, requested, at)| Heartbeat::Recorded {
        term,
        leader_since,
        step_down: term.is_some() && term == requested,
        at,
    }))
}

statement! {
    RequestStepDown = "leadership/leader_request_step_down.sql", () -> SqlUuid
}

/// Requests that the leader steps down, and returns the leader; `None` without a leader. A second
/// request in one term keeps the first.
pub async fn request_step_down(conn: &mut Conn) -> DbResult<Option<Instance>> {
    let Some(id) = RequestStepDown {}.get_result::<InstanceId>(conn).await.optional()? else {
        return Ok(None);
    };
    let row = scheduler_instances::table.find(id);
    Ok(row.select(Instance::as_select()).get_result(conn).await.optional()?)
}

/// Whether a scheduler other than the leader would take over: it sent a heartbeat within a lease,
/// and did not step down recently.
pub async fn has_standby(conn: &mut Conn, lease: Duration) -> DbResult<bool> {
    Ok(HasStandby { lease_seconds: lease.as_secs_f64() }.get_result(conn).await?)
}

statement! {
    HasStandby = "leadership/leader_has_standby.sql", (lease_seconds: f64 as Double) -> Bool
}

statement! {
    Leader = "leadership/leader.sql", (lease_seconds: f64 as Double) -> (BigInt, Bool)
}
statement! {
    LockLeader = "leadership/leader_lock.sql", (lease_seconds: f64 as Double) -> (BigInt, Bool)
}
statement! {
    Lead = "leadership/leader_begin_term.sql", (id: InstanceId as SqlUuid, lease_ms: i32 as Int4) -> (BigInt, Text, Int4, Nullable<BigInt>, Nullable<Text>)
}
statement! {
    EndTerm = "leadership/leader_end_term.sql", (term: Term as BigInt, reason: TermEnd as Text) -> BigInt
}
statement! {
    LockTerm = "leadership/leader_lock_term.sql", (id: InstanceId as SqlUuid, term: Term as BigInt) -> BigInt
}

#[derive(Queryable)]
struct NewTerm {
    term: Term,
    hostname: String,
    pid: i32,
    former_term: Option<Term>,
    former_end: Option<String>,
}

fn leader_changed(id: InstanceId, new_term: &NewTerm) -> NewEvent {
    NewEvent {
        tenant_id: None,
        project_id: None,
        job_id: None,
        dispatch_id: None,
        event_type: append::LEADER_CHANGED,
        payload: serde_json::json!({
            "instance_id": id,
            "hostname": new_term.hostname,
            "pid": new_term.pid,
            "term": new_term.term,
            "former_term": new_term.former_term,
            "former_end_reason": new_term.former_end,
        }),
    }
}

/// Takes over if there is no leader or the leader's lease has expired.
///
/// # Errors
/// Also if a transaction in flight of the old leader outlasts the lock timeout; try again.
pub async fn take_over(conn: &mut Conn, id: InstanceId, lease: Duration) -> DbResult<TakeOver> {
    let lease_seconds = lease.as_secs_f64();
    let lease_ms = i32::try_from(lease.as_millis()).unwrap_or(i32::MAX);
    let leader: Option<(Term, bool)> = Leader { lease_seconds }.get_result(conn).await.optional()?;
    if matches!(leader, Some((_, false))) {
        return Ok(TakeOver::Held);
    }
    let taken = transaction::transact(conn, "take_over", async |conn: &mut Conn| {
        let leader: Option<(Term, bool)> = LockLeader { lease_seconds }.get_result(conn).await.optional()?;
        match leader {
            Some((_, false)) => return Ok(TakeOver::Held),
            Some((term, true)) => {
                EndTerm { term, reason: TermEnd::Expired }.execute(conn).await?;
            }
            None => {}
        }
        let new_term: Option<NewTerm> = Lead { id, lease_ms }.get_result(conn).await.optional()?;
        // The row was removed because this scheduler seemed dead: it must register again first.
        let Some(new_term) = new_term else { return Ok(TakeOver::Held) };
        append::append(conn, &[leader_changed(id, &new_term)]).await?;
        Ok(TakeOver::Leading(new_term.term))
    })
    .await;
    match taken {
        Err(DbError::Constraint { kind: ConstraintKind::Unique, .. }) => Ok(TakeOver::Held),
        result => result,
    }
}

/// Resigns if this scheduler still leads, and waits for its transactions in flight. Returns whether
/// it led.
///
/// # Errors
/// The lease expires.
pub async fn resign(conn: &mut Conn, id: InstanceId, term: Term) -> DbResult<bool> {
    transaction::transact(conn, "resign", async |conn: &mut Conn| {
        let ours: Option<Term> = LockTerm { id, term }.get_result(conn).await.optional()?;
        if ours.is_some() {
            EndTerm { term, reason: TermEnd::Resigned }.execute(conn).await?;
        }
        Ok(ours.is_some())
    })
    .await
}

/// Removes a scheduler that stops. A leader resigns first.
///
/// # Errors
/// The row is removed later as stale.
pub async fn unregister(conn: &mut Conn, id: InstanceId) -> DbResult<()> {
    let row = scheduler_instances::table.find(id).filter(diesel::dsl::not(scheduler_instances::is_leader));
    diesel::delete(row).execute(conn).await?;
    Ok(())
}

statement! {
    RemoveStale = "leadership/instances_remove_stale.sql", (seconds: f64 as Double) -> SqlUuid
}

/// Removes registrations of schedulers that have been silent for `silence` and do not lead; returns
/// them.
pub async fn remove_stale(conn: &mut Conn, silence: Duration) -> DbResult<Vec<InstanceId>> {
    Ok(RemoveStale { seconds: silence.as_secs_f64() }.load(conn).await?)
}

/// All registered schedulers, the leader first.
pub async fn list(conn: &mut Conn) -> DbResult<Vec<Instance>> {
    let table = scheduler_instances::table;
    let order = (scheduler_instances::is_leader.desc(), scheduler_instances::started_at.asc());
    Ok(table.order(order).limit(1000).select(Instance::as_select()).load(conn).await?)
}

pub async fn by_id(conn: &mut Conn, id: InstanceId) -> DbResult<Option<Instance>> {
    let found = scheduler_instances::table.find(id).select(Instance::as_select());
    Ok(found.get_result(conn).await.optional()?)
}
