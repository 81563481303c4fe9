//! Worker processes and their leases.
//!
//! One row here keeps a worker alive, not one row per run. A worker whose row is OFFLINE has lost
//! its lease permanently: recovery gives its work to other workers, and its heartbeat is rejected.
//! It must kill its work and register under a new id.

mod current_runs;

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::json;

use crate::events::append::{self, NewEvent};
use crate::schema::worker_registration;
use crate::{
    Conn, DbResult,
    connection::{database_clock, transaction},
};
use sched_domain::ids::WorkerId;
use sched_domain::instance::WorkerStatus;

pub use current_runs::{WorkerRun, current_runs};

#[derive(Debug, Clone, Insertable)]
#[diesel(table_name = worker_registration, check_for_backend(diesel::pg::Pg))]
pub struct NewWorker {
    /// Random id, generated when the process started or lost its lease.
    pub worker_id: WorkerId,
    /// A label.
    pub hostname: String,
    pub platform: String,
    /// A label.
    pub process_id: i32,
    pub version: String,
    pub queues: Vec<String>,
    /// Maximum number of concurrent runs.
    pub concurrency: i32,
    /// Time in milliseconds without a renewal before which the worker is not marked OFFLINE.
    pub lease_ms: i32,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = worker_registration, check_for_backend(diesel::pg::Pg))]
pub struct Worker {
    pub worker_id: WorkerId,
    pub hostname: String,
    pub platform: String,
    pub process_id: i32,
    pub version: String,
    pub queues: Vec<String>,
    pub concurrency: i32,
    pub status: WorkerStatus,
    pub running: i32,
    pub jobs_processed: i64,
    pub started_at: DateTime<Utc>,
    pub last_heartbeat: DateTime<Utc>,
    pub offline_since: Option<DateTime<Utc>>,
    pub drain_requested_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// Never OFFLINE.
    pub status: WorkerStatus,
    pub running: i32,
    pub jobs_processed: i64,
    /// As [`NewWorker::lease_ms`]: longer for a worker that runs nothing.
    pub lease_ms: i32,
    /// The answer counts at most this many living workers with a common queue.
    pub count_up_to: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeatOutcome {
    Renewed {
        drain_requested: bool,
        /// Time since the leader's last heartbeat, by the database's clock; `None` without a
        /// leader.
        leader_silence: Option<Duration>,
        /// Number of living workers with a common queue, this one included.
        living: i32,
    },
    /// The lease is lost: the worker must kill all work, because other workers may run it.
    LeaseLost,
}

/// The previous registration of a process that lost its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    pub worker_id: WorkerId,
    /// Whether an operator had requested a drain, as far as the process knew.
    pub was_draining: bool,
}

/// Registers a worker. If the previous id was draining, the new one drains too; returns whether it
/// does.
pub async fn register(conn: &mut Conn, worker: &NewWorker, before: Option<Predecessor>) -> DbResult<bool> {
    use worker_registration as w;
    transaction::transact(conn, "register_worker", async |conn: &mut Conn| {
        let new = diesel::insert_into(worker_registration::table)
            .values(worker)
            .on_conflict_do_nothing()
            .execute(conn)
            .await?;
        let is_draining = match before {
            // If the registration and its request are gone, the process knows.
            Some(before) => note_of(conn, before.worker_id).await?.unwrap_or(before.was_draining),
            None => false,
        };
        if new == 0 {
            return Ok(is_draining);
        }
        if is_draining {
            let changes = (
                w::drain_requested_at.eq(database_clock::clock_timestamp().nullable()),
                w::status.eq(WorkerStatus::Draining),
            );
            diesel::update(w::table.find(worker.worker_id)).set(changes).execute(conn).await?;
        }
        let payload = json!({
            "worker_id": worker.worker_id,
            "hostname": worker.hostname,
            "version": worker.version,
            "queues": worker.queues,
            "concurrency": worker.concurrency,
            "draining": is_draining,
        });
        append::append(conn, &[event(append::WORKER_ONLINE, payload)]).await?;
        Ok(is_draining)
    })
    .await
}

pub async fn by_id(conn: &mut Conn, id: WorkerId) -> DbResult<Option<Worker>> {
    let found = worker_registration::table.find(id).select(Worker::as_select());
    Ok(found.get_result(conn).await.optional()?)
}

/// Whether an operator requested a drain of a worker; `None` if the worker is not registered.
async fn note_of(conn: &mut Conn, worker_id: WorkerId) -> DbResult<Option<bool>> {
    use worker_registration as w;
    let note = w::table.find(worker_id).select(w::drain_requested_at.is_not_null());
    Ok(note.get_result(conn).await.optional()?)
}

fn event(event_type: &'static str, payload: serde_json::Value) -> NewEvent {
    NewEvent { tenant_id: None, project_id: None, job_id: None, dispatch_id: None, event_type, payload }
}

statement! {
    /// A named statement: an update of the query builder is prepared again each time (two
    /// transactions).
    Renew = "workers/worker_heartbeat.sql",
    (
        status: WorkerStatus as Text,
        running: i32 as Int4,
        jobs_processed: i64 as BigInt,
        lease_ms: i32 as Int4,
        worker_id: WorkerId as SqlUuid,
        count_up_to: i64 as BigInt,
    ) -> (Nullable<Timestamptz>, Nullable<Double>, Int4)
}

/// Renews the lease. After an error the caller must not assume that it was renewed.
pub async fn heartbeat(conn: &mut Conn, worker_id: WorkerId, beat: Beat) -> DbResult<BeatOutcome> {
    let Beat { status, running, jobs_processed, lease_ms, count_up_to } = beat;
    let count_up_to = count_up_to.into();
    let renewal = Renew { status, running, jobs_processed, lease_ms, worker_id, count_up_to };
    let row: Option<(Option<DateTime<Utc>>, Option<f64>, i32)> = renewal.get_result(conn).await.optional()?;
    Ok(row.map_or(BeatOutcome::LeaseLost, |(drain, silence, living)| BeatOutcome::Renewed {
        living,
        drain_requested: drain.is_some(),
        // An invalid duration counts as no leader.
        leader_silence: silence.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    }))
}

/// Requests a drain, or withdraws the request.
///
/// Claims obey at once, the worker at its next heartbeat, which
/// [`crate::connection::notify::drain_changed`] triggers. Returns the previous request and the
/// worker; `None` if no such worker is alive. Call it in a transaction.
pub async fn set_drain(
    conn: &mut Conn,
    worker_id: WorkerId,
    is_wanted: bool,
) -> DbResult<Option<(bool, Worker)>> {
    use worker_registration as w;
    let alive = w::table.filter(w::worker_id.eq(worker_id)).filter(w::status.ne(WorkerStatus::Offline));
    let found: Option<Worker> =
        alive.select(Worker::as_select()).for_no_key_update().get_result(conn).await.optional()?;
    let Some(before) = found else { return Ok(None) };
    let was_wanted = before.drain_requested_at.is_some();
    if was_wanted == is_wanted {
        return Ok(Some((was_wanted, before)));
    }
    let update = diesel::update(w::table.find(worker_id));
    let after = match is_wanted {
        true => {
            let changes = w::drain_requested_at.eq(database_clock::clock_timestamp().nullable());
            update.set(changes).returning(Worker::as_returning()).get_result(conn).await?
        }
        false => {
            let taken_back = w::drain_requested_at.eq(None::<DateTime<Utc>>);
            update.set(taken_back).returning(Worker::as_returning()).get_result(conn).await?
        }
    };
    Ok(Some((was_wanted, after)))
}

statement! {
    RemoveFinishedClaims = "workers/worker_claims_remove_finished.sql", (worker_id: WorkerId as SqlUuid) -> BigInt
}
statement! {
    Remove = "workers/worker_remove.sql", (worker_id: WorkerId as SqlUuid) -> SqlUuid
}
statement! {
    GiveUp = "workers/worker_give_up.sql", (worker_id: WorkerId as SqlUuid) -> SqlUuid
}

/// Removes the registration of a worker that stops. A worker that still holds work is marked
/// OFFLINE instead, so recovery takes the work at once. After an error the lease expires.
pub async fn unregister(conn: &mut Conn, worker_id: WorkerId) -> DbResult<()> {
    transaction::transact(conn, "unregister_worker", async |conn: &mut Conn| {
        RemoveFinishedClaims { worker_id }.execute(conn).await?;
        let removed = Remove { worker_id }.execute(conn).await?;
        let given_up = if removed == 0 { GiveUp { worker_id }.execute(conn).await? } else { 0 };
        if removed == 0 && given_up == 0 {
            // Removed already: the caller repeats this after an unknown outcome.
            return Ok(());
        }
        let payload = json!({"worker_id": worker_id, "held_work": removed == 0});
        append::append(conn, &[event(append::WORKER_STOPPED, payload)]).await
    })
    .await
}

statement! {
    /// Workers without claims that have long been OFFLINE.
    RemoveStale = "workers/workers_remove_stale.sql", (seconds: f64 as Double) -> SqlUuid
}

/// Removes workers without claims that have been OFFLINE for `silence`.
pub async fn remove_stale(conn: &mut Conn, silence: Duration) -> DbResult<Vec<WorkerId>> {
    Ok(RemoveStale { seconds: silence.as_secs_f64() }.load(conn).await?)
}

statement! {
    Living = "workers/workers_living.sql", () -> BigInt
}

pub async fn living(conn: &mut Conn) -> DbResult<u64> {
    let count: i64 = Living {}.get_result(conn).await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub status: Option<WorkerStatus>,
    pub queue: Option<String>,
    pub after: Option<WorkerPosition>,
}

/// Position in the list: live workers by start time, then OFFLINE ones, the latest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerPosition {
    pub offline_since: Option<DateTime<Utc>>,
    pub started_at: DateTime<Utc>,
    pub worker_id: WorkerId,
}

impl Worker {
    #[must_use]
    pub fn place(&self) -> WorkerPosition {
        let Self { offline_since, started_at, worker_id, .. } = *self;
        WorkerPosition { offline_since, started_at, worker_id }
    }
}

pub async fn list(conn: &mut Conn, filter: &Filter, limit: i64) -> DbResult<Vec<Worker>> {
    use worker_registration as w;
    let order = (w::offline_since.desc().nulls_first(), w::started_at.asc(), w::worker_id.asc());
    let mut query = w::table.order(order).limit(limit).select(Worker::as_select()).into_boxed();
    if let Some(status) = filter.status {
        query = query.filter(w::status.eq(status));
    }
    if let Some(queue) = &filter.queue {
        query = query.filter(w::queues.contains(vec![queue]));
    }
    if let Some(WorkerPosition { offline_since, started_at, worker_id }) = filter.after {
        let started_later =
            w::started_at.gt(started_at).or(w::started_at.eq(started_at).and(w::worker_id.gt(worker_id)));
        query = match offline_since {
            None => query.filter(w::offline_since.is_not_null().or(started_later)),
            Some(since) => query.filter(
                w::offline_since
                    .lt(since)
                    .or(w::offline_since.eq(since).and(started_later))
                    .assume_not_null(),
            ),
        };
    }
    Ok(query.load(conn).await?)
}
