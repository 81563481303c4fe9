//! Faults of the counters of jobs: a kill between the end of attempts and their count, and several
//! processes that count at once.
//!
//! An end inserts a row into `uncounted_ends`; a later transaction of any process deletes the row
//! and counts it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use sched_model::running::job_counters;
use sched_model::{Database, DatabaseSettings};
use sched_runtime::monotonic_clock::monotonic;
use test_support::Client;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::Victims;
use crate::fleet::{Daemon, Order};
use crate::plan::Kind;
use crate::timeline::{FaultRecord, now};

const KILL: &str = "kill-uncounted";
const COUNT: &str = "count";

const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_millis(100);
/// A keeper may be busy with another order. The locks of the fault must not last.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Holds the batches back: a count skips locked rows.
const HOLD: &str = "SELECT batch_id FROM uncounted_ends ORDER BY batch_id FOR UPDATE SKIP LOCKED";
/// The worker that ended the newest of these batches.
const ENDED_BY: &str = "SELECT w.process_id FROM run_end_batches b
    JOIN job_execution_log l ON l.tenant_id = b.tenant_id AND l.id = b.execution_ids[1] AND l.started_at = b.started_at[1]
    JOIN worker_registration w ON w.worker_id = l.worker_id AND w.status <> 'OFFLINE'
    WHERE b.id = ANY ($1) ORDER BY b.id DESC LIMIT 1";
const STILL_UNCOUNTED: &str = "SELECT count(*) FROM uncounted_ends WHERE batch_id = ANY ($1)";
const LEADER: &str = "SELECT pid FROM leader_terms WHERE ended_at IS NULL ORDER BY term DESC LIMIT 1";

/// The counting processes of the fault continue this long after the leader has resumed.
const AFTER: Duration = Duration::from_secs(2);
/// Pause between two counts of one process.
const STEP: Duration = Duration::from_millis(5);

/// Ends that no process counts while `sql` is open.
struct HeldEnds<'a> {
    sql: Client,
    batches: Vec<i64>,
    worker: &'a Daemon,
    leader: &'a Daemon,
}

impl Victims {
    /// Kills a worker after the commit of its ends and before their count, and the leader with it.
    /// Another process must count them.
    pub(super) async fn kill_uncounted(&self, pause: Duration) {
        let mut why = String::new();
        for _ in 0..TRIES {
            match self.hold_ends().await {
                Ok(held) => return self.kill_with_ends(held, pause).await,
                Err(error) => why = format!("{error:#}"),
            }
            sleep(PAUSE).await;
        }
        self.timeline.record_omitted(KILL, "worker", &why);
    }

    async fn hold_ends(&self) -> anyhow::Result<HeldEnds<'_>> {
        let sql = self.workspace.client().await?;
        let leader = self.leader(&sql).await?;
        sql.batch_execute("BEGIN").await?;
        let rows = sql.query(HOLD, &[]).await?;
        let batches: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        ensure!(!batches.is_empty(), "no end waits to be counted");
        let process = sql.query_opt(ENDED_BY, &[&batches]).await?;
        let process: i32 = process.context("the worker of the ends is offline")?.get(0);
        let worker = self.fleet.all(Kind::Worker).find(|worker| worker.pid() == process);
        let worker = worker.context("the worker of the ends has exited")?;
        Ok(HeldEnds { sql, batches, worker, leader })
    }

    async fn kill_with_ends(&self, held: HeldEnds<'_>, pause: Duration) {
        let HeldEnds { sql, batches, worker, leader } = held;
        let began = now();
        let both = async { tokio::join!(kill_now(worker, pause), kill_now(leader, pause)) };
        let are_killed = timeout(KILL_LIMIT, both).await.is_ok_and(|(worker, leader)| worker && leader);
        let left = async { anyhow::Ok(sql.query_one(STILL_UNCOUNTED, &[&batches]).await?.get::<_, i64>(0)) };
        let left = left.await;
        // The locks end with the connection.
        drop(sql);
        match left {
            Ok(left) if are_killed && left > 0 => self.timeline.fault(FaultRecord {
                kind: KILL,
                target: &worker.name,
                began,
                detail: &format!("with {}; {left} batches of ends were not counted", leader.name),
            }),
            Ok(_) => self.timeline.record_omitted(KILL, &worker.name, "a process was busy or had ended"),
            Err(error) => self.timeline.record_omitted(KILL, &worker.name, &format!("{error:#}")),
        }
    }

    async fn leader(&self, sql: &Client) -> anyhow::Result<&Daemon> {
        let process = sql.query_opt(LEADER, &[]).await?.context("no scheduler leads")?;
        let process: i32 = process.get(0);
        let leader = self.fleet.all(Kind::Scheduler).find(|scheduler| scheduler.pid() == process);
        leader.context("the leader has exited")
    }

    /// Freezes the leader, so that workers count, and counts in two more processes beside them and
    /// beside the leader that resumes.
    pub(super) async fn count_beside(&self, lasts: Duration) {
        let began = now();
        let leader = async { self.leader(&self.workspace.client().await?).await };
        let frozen = match leader.await {
            Ok(leader) => {
                leader.order(Order::Freeze(lasts));
                leader.name.as_str()
            }
            Err(_) => "no leader",
        };
        let (url, until) = (self.workspace.url(), monotonic() + lasts + AFTER);
        match tokio::join!(count_until(url, until), count_until(url, until)) {
            (Ok(one), Ok(other)) if one > 0 && other > 0 => self.timeline.fault(FaultRecord {
                kind: COUNT,
                target: "counters",
                began,
                detail: &format!("{one} and {other} jobs, {frozen} frozen"),
            }),
            (Err(error), _) | (_, Err(error)) => {
                self.timeline.record_omitted(COUNT, "counters", &format!("{error:#}"));
            }
            (Ok(one), Ok(other)) => {
                self.timeline.record_omitted(
                    COUNT,
                    "counters",
                    &format!("{one} and {other} jobs were counted"),
                );
            }
        }
    }
}

/// Whether the daemon ran and is dead.
async fn kill_now(daemon: &Daemon, pause: Duration) -> bool {
    let (killed, is_killed) = oneshot::channel();
    daemon.order(Order::KillNow(pause, killed));
    is_killed.await.unwrap_or(false)
}

/// Counts every few milliseconds; returns the number of counted jobs.
async fn count_until(url: &str, until: Instant) -> anyhow::Result<usize> {
    let database = Database::new(&DatabaseSettings::new(url, "sched-counter"))?;
    let mut jobs = 0;
    while monotonic() < until {
        // The database may be down.
        if let Ok(mut conn) = database.conn().await
            && let Ok(counted) = job_counters::count_and_notify(&mut conn).await
        {
            jobs += counted.jobs;
        }
        sleep(STEP).await;
    }
    database.close();
    Ok(jobs)
}
