//! Worker processes and their leases.
//!
//! A worker is alive by its one row here, not by one row per dispatch. A worker whose row says OFFLINE has lost its
//! lease for good: its work was or will be given to others, its heartbeat is refused, and it must kill its work and
//! register under a new identity.

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

/// A worker as it registers itself.
#[derive(Debug, Clone, Insertable)]
#[diesel(table_name = worker_registration, check_for_backend(diesel::pg::Pg))]
pub struct NewWorker {
    /// Random identity, made when the process started or lost its lease.
    pub worker_id: WorkerId,
    /// Host, a label.
    pub hostname: String,
    /// Operating system and architecture.
    pub platform: String,
    /// Process id, a label.
    pub process_id: i32,
    /// Version of the program.
    pub version: String,
    /// Queues it serves.
    pub queues: Vec<String>,
    /// How many dispatches it runs at once.
    pub concurrency: i32,
    /// How long it trusts itself without a heartbeat, in milliseconds; it is not given up earlier.
    pub lease_ms: i32,
}

/// A worker as it is registered.
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

/// What a worker says with a heartbeat.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// What it is doing; never OFFLINE.
    pub status: WorkerStatus,
    /// How many dispatches it runs.
    pub running: i32,
    /// How many attempts it has finished.
    pub jobs_processed: i64,
}

/// What became of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeatOutcome {
    /// The lease is renewed.
    Renewed {
        /// Whether an operator asks the worker to take nothing new.
        drain_requested: bool,
        /// How long the leader has been silent, by the database's clock; `None` if nobody leads.
        leader_silence: Option<Duration>,
    },
    /// The lease was lost: kill all work, it belongs to others.
    LeaseLost,
}

/// What the same process was before it lost its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    /// Its identity.
    pub worker_id: WorkerId,
    /// Whether an operator had asked it to take nothing new, as far as it had heard.
    pub was_draining: bool,
}

/// Registers a worker. One that was asked to drain under its identity before drains under this one; returns whether it does.
pub async fn register(conn: &mut Conn, worker: &NewWorker, before: Option<Predecessor>) -> DbResult<bool> {
    use worker_registration as w;
    transaction::transact(conn, "register_worker", async |conn: &mut Conn| {
        let new = diesel::insert_into(worker_registration::table)
            .values(worker)
            .on_conflict_do_nothing()
            .execute(conn)
            .await?;
        let is_draining = match before {
            // Where the note is gone with the registration, the process knows of it.
            Some(before) => note_of(conn, before.worker_id).await?.unwrap_or(before.was_draining),
            None => false,
        };
        if new == 0 {
            return Ok(is_draining);
        }
        if is_draining {
            let asked = (
                w::drain_requested_at.eq(database_clock::clock_timestamp().nullable()),
                w::status.eq(WorkerStatus::Draining),
            );
            diesel::update(w::table.find(worker.worker_id)).set(asked).execute(conn).await?;
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

/// The worker with this id, if it is registered.
pub async fn by_id(conn: &mut Conn, id: WorkerId) -> DbResult<Option<Worker>> {
    let found = worker_registration::table.find(id).select(Worker::as_select());
    Ok(found.get_result(conn).await.optional()?)
}

/// Whether an operator asks a registered worker to drain; `None` if there is no such registration.
async fn note_of(conn: &mut Conn, worker_id: WorkerId) -> DbResult<Option<bool>> {
    use worker_registration as w;
    let note = w::table.find(worker_id).select(w::drain_requested_at.is_not_null());
    Ok(note.get_result(conn).await.optional()?)
}

fn event(event_type: &'static str, payload: serde_json::Value) -> NewEvent {
    NewEvent { tenant_id: None, project_id: None, job_id: None, dispatch_id: None, event_type, payload }
}

statement! {
    /// Renews the lease. A statement of its own because an update made by the query builder is prepared anew each time: two transactions.
    Renew = "workers/worker_heartbeat.sql",
    (status: WorkerStatus as Text, running: i32 as Int4, jobs_processed: i64 as BigInt, worker_id: WorkerId as SqlUuid)
    -> (Nullable<Timestamptz>, Nullable<Double>)
}

/// Renews the lease of a worker.
///
/// # Errors
/// When the database cannot be asked; the caller must then not assume that the lease was renewed.
pub async fn heartbeat(conn: &mut Conn, worker_id: WorkerId, beat: Beat) -> DbResult<BeatOutcome> {
    let Beat { status, running, jobs_processed } = beat;
    let row: Option<(Option<DateTime<Utc>>, Option<f64>)> =
        Renew { status, running, jobs_processed, worker_id }.get_result(conn).await.optional()?;
    Ok(row.map_or(BeatOutcome::LeaseLost, |(drain, silence)| BeatOutcome::Renewed {
        drain_requested: drain.is_some(),
        // What does not fit is as good as nobody.
        leader_silence: silence.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    }))
}

/// Asks a worker to take nothing new, or takes that back.
///
/// Claims obey at once, the worker with its next heartbeat. Returns whether it was asked before, and the worker as it is; `None` if no such
/// worker lives. Call it in a transaction.
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
            let asked = w::drain_requested_at.eq(database_clock::clock_timestamp().nullable());
            update.set(asked).returning(Worker::as_returning()).get_result(conn).await?
        }
        false => {
            let taken_back = w::drain_requested_at.eq(None::<DateTime<Utc>>);
            update.set(taken_back).returning(Worker::as_returning()).get_result(conn).await?
        }
    };
    Ok(Some((was_wanted, after)))
}

statement! {
    /// Removes the claims of a worker whose dispatches have all finished.
    RemoveFinishedClaims = "workers/worker_claims_remove_finished.sql", (worker_id: WorkerId as SqlUuid) -> BigInt
}
statement! {
    /// Removes a worker that has no claims left.
    Remove = "workers/worker_remove.sql", (worker_id: WorkerId as SqlUuid) -> SqlUuid
}
statement! {
    /// Marks a worker as gone at once.
    GiveUp = "workers/worker_give_up.sql", (worker_id: WorkerId as SqlUuid) -> SqlUuid
}

/// Removes the registration of a worker that stops. If it still holds work (it should not), the worker is marked OFFLINE
/// instead, so that the work is recovered at once.
///
/// # Errors
/// When the database cannot be asked; the lease then expires by itself.
pub async fn unregister(conn: &mut Conn, worker_id: WorkerId) -> DbResult<()> {
    transaction::transact(conn, "unregister_worker", async |conn: &mut Conn| {
        RemoveFinishedClaims { worker_id }.execute(conn).await?;
        let removed = Remove { worker_id }.execute(conn).await?;
        let given_up = if removed == 0 { GiveUp { worker_id }.execute(conn).await? } else { 0 };
        if removed == 0 && given_up == 0 {
            // It is gone already: this is done again because nobody heard that it was.
            return Ok(());
        }
        let payload = json!({"worker_id": worker_id, "held_work": removed == 0});
        append::append(conn, &[event(append::WORKER_STOPPED, payload)]).await
    })
    .await
}

statement! {
    /// Removes long-gone workers without claims.
    RemoveStale = "workers/workers_remove_stale.sql", (seconds: f64 as Double) -> SqlUuid
}

/// Removes workers that have been OFFLINE for `silence` and hold nothing; returns them.
pub async fn remove_stale(conn: &mut Conn, silence: Duration) -> DbResult<Vec<WorkerId>> {
    Ok(RemoveStale { seconds: silence.as_secs_f64() }.load(conn).await?)
}

statement! {
    Living = "workers/workers_living.sql", () -> BigInt
}

/// How many workers there are that nobody has given up.
pub async fn living(conn: &mut Conn) -> DbResult<u64> {
    let count: i64 = Living {}.get_result(conn).await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Which workers to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only in this state.
    pub status: Option<WorkerStatus>,
    /// Only those that serve this queue.
    pub queue: Option<String>,
    /// Only those behind this one in the order: the last of the page before.
    pub after: Option<Place>,
}

/// Where a worker stands in the list: the living by when they started, then those that are gone, the latest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub offline_since: Option<DateTime<Utc>>,
    pub started_at: DateTime<Utc>,
    pub worker_id: WorkerId,
}

impl Worker {
    /// Where it stands in the list.
    #[must_use]
    pub fn place(&self) -> Place {
        let Self { offline_since, started_at, worker_id, .. } = *self;
        Place { offline_since, started_at, worker_id }
    }
}

/// Registered workers that a filter means, the living first, at most `limit`.
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
    if let Some(Place { offline_since, started_at, worker_id }) = filter.after {
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
