//! Workers, schedulers and the state of the installation, for answers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sched_model::cluster::leadership::Instance;
use sched_model::cluster::overview::{Counts, DueJob, Quarantined, Waiting};
use sched_model::domain::lease::Leadership;
use sched_model::recovery::lost_attempts::Cause;
use sched_model::recovery::stuck_attempts::StuckAttempt;
use sched_model::running::workers::{Worker, WorkerRun};
use sched_wire as wire;

use super::{IntoWire, response};

pub(crate) fn worker(worker: Worker, now: DateTime<Utc>) -> wire::Worker {
    wire::Worker {
        id: worker.worker_id.0,
        hostname: worker.hostname,
        platform: worker.platform,
        process_id: worker.process_id,
        version: worker.version,
        queues: worker.queues,
        concurrency: worker.concurrency,
        status: worker.status.into_wire(),
        running: worker.running,
        jobs_processed: worker.jobs_processed,
        started_at: worker.started_at,
        last_heartbeat: worker.last_heartbeat,
        heartbeat_age_seconds: (now - worker.last_heartbeat).to_std().unwrap_or_default().as_secs(),
        offline_since: worker.offline_since,
        drain_requested_at: worker.drain_requested_at,
        runs: None,
    }
}

pub(crate) fn worker_run(run: WorkerRun) -> wire::WorkerRun {
    wire::WorkerRun {
        run_id: run.dispatch_id.0,
        attempt_id: run.execution_id.0,
        attempt: run.attempt,
        job: run.job_name,
        job_id: run.job_id.0,
        queue: run.queue,
        scheduled_for: run.scheduled_for,
        claimed_at: run.claimed_at,
        progress: run.progress.map(response::progress),
    }
}

/// A scheduler whose last heartbeat is older than `lease` counts as gone.
pub(crate) fn instance(instance: Instance, now: DateTime<Utc>, lease: Duration) -> wire::SchedulerInstance {
    let asked_to_step_down_at = instance.step_down_requested_at();
    let silence = (now - instance.last_heartbeat).as_seconds_f64();
    let liveness = Leadership::of(Some(silence), lease);
    let leadership = if instance.is_leader { liveness } else { Leadership::None };
    wire::SchedulerInstance {
        id: instance.id.0,
        hostname: instance.hostname,
        pid: instance.pid,
        version: instance.version,
        started_at: instance.started_at,
        last_heartbeat: instance.last_heartbeat,
        status: match liveness {
            Leadership::Live => wire::SchedulerStatus::Online,
            Leadership::Expired { .. } | Leadership::None => wire::SchedulerStatus::Offline,
        },
        is_leader: instance.is_leader,
        lease_expired_seconds: leadership.expired_ago().map(|ago| ago.as_secs()),
        leader_since: instance.leader_since,
        term: instance.term.map(|term| term.0),
        step_down_requested_at: asked_to_step_down_at,
        clock_offset_seconds: instance.clock_offset_seconds,
    }
}

/// An attempt that a reset would end.
pub(crate) fn stuck_attempt(stuck: StuckAttempt) -> wire::StuckAttempt {
    wire::StuckAttempt {
        run_id: stuck.dispatch_id.0,
        tenant: stuck.tenant,
        job: stuck.job,
        attempt: stuck.attempt,
        claimed_at: stuck.claimed_at,
        worker_id: stuck.worker_id.0,
        hostname: stuck.hostname,
        reason: match stuck.cause {
            Cause::WorkerLost { .. } => wire::StuckReason::WorkerLost,
            Cause::Overdue { .. } => wire::StuckReason::Overdue,
            Cause::Stray => wire::StuckReason::ClaimMissing,
        },
        becomes: stuck.becomes.into_wire(),
    }
}

fn queue(waiting: Waiting) -> wire::QueueStatus {
    let Waiting { queue, waiting, oldest_claimable_at } = waiting;
    let rate = queue.rate.as_ref();
    wire::QueueStatus {
        waiting,
        oldest_claimable_at,
        has_live_worker: queue.workers > 0,
        workers_draining: queue.draining,
        is_paused: queue.is_paused,
        is_at_limit: queue.is_full() || queue.is_rate_used_up(),
        max_running: queue.max_running,
        running: queue.running,
        rate: rate.and_then(|rate| {
            let (count, period) = (rate.count.try_into(), rate.period_seconds.try_into());
            Some(wire::Rate { count: count.ok()?, period_seconds: period.ok()? })
        }),
        claimed_in_period: rate.map(|rate| rate.claimed),
        pause_reason: queue.pause_reason,
        name: queue.name,
    }
}

/// The jobs that a status names.
pub(crate) struct NamedJobs {
    pub(crate) quarantined: Vec<Quarantined>,
    pub(crate) next_due: Vec<DueJob>,
}

/// A leader whose last heartbeat is older than `lease` counts as gone.
pub(crate) fn status(
    counts: Counts,
    waiting: Vec<Waiting>,
    named: NamedJobs,
    lease: Duration,
) -> wire::Status {
    let leadership = Leadership::of(counts.leader_silence, lease);
    let quarantined = named.quarantined.into_iter();
    let next_due = named.next_due.into_iter();
    wire::Status {
        now: counts.now,
        jobs_active: counts.jobs_active,
        jobs_inactive: counts.jobs_inactive,
        jobs_quarantined: counts.jobs_quarantined,
        quarantined: quarantined
            .map(|job| wire::QuarantinedJob { name: job.name, reason: job.reason })
            .collect(),
        next_run_at: counts.next_run_at,
        next_due: next_due.map(|job| wire::DueJob { name: job.name, next_run_at: job.next_run_at }).collect(),
        runs_waiting: counts.dispatches_pending,
        runs_running: counts.dispatches_running,
        workers_online: counts.workers_online,
        schedulers: counts.schedulers_online,
        has_leader: leadership == Leadership::Live,
        leader_state: match leadership {
            Leadership::Live => wire::LeaderState::Live,
            Leadership::Expired { .. } => wire::LeaderState::Expired,
            Leadership::None => wire::LeaderState::None,
        },
        lease_expired_seconds: leadership.expired_ago().map(|ago| ago.as_secs()),
        queues: waiting.into_iter().map(queue).collect(),
    }
}
