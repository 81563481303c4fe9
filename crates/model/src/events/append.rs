//! Appends to the durable event stream.

use diesel::sql_types::{Array, Jsonb, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

#[derive(Debug, Clone)]
pub struct NewEvent {
    /// `None` for events of the installation.
    pub tenant_id: Option<TenantId>,
    pub project_id: Option<ProjectId>,
    pub job_id: Option<JobId>,
    pub dispatch_id: Option<DispatchId>,
    pub event_type: &'static str,
    pub payload: serde_json::Value,
}

pub const JOB_CREATED: &str = "job_created";
pub const JOB_UPDATED: &str = "job_updated";
pub const JOB_DELETED: &str = "job_deleted";
pub const JOB_RESTORED: &str = "job_restored";
pub const QUEUE_CREATED: &str = "queue_created";
pub const QUEUE_UPDATED: &str = "queue_updated";
pub const WORKER_ONLINE: &str = "worker_online";
pub const WORKER_STOPPED: &str = "worker_stopped";
/// A user disabled a job, or the scheduler disabled one that it can no longer schedule.
pub const JOB_DISABLED: &str = "job_disabled";
pub const LEADER_CHANGED: &str = "leader_changed";
pub const STEP_DOWN_REQUESTED: &str = "leader_step_down_requested";
pub const JOB_PAUSED: &str = "job_paused";
pub const JOB_RESUMED: &str = "job_resumed";
pub const JOB_ENABLED: &str = "job_enabled";
/// A worker's lease expired.
pub const WORKER_OFFLINE: &str = "worker_offline";
/// An attempt started; the claim writes it.
pub const EXECUTION_STARTED: &str = "schedule_execution_started";
/// An attempt ended, with any outcome; the statement that ends it writes it.
pub const EXECUTION_COMPLETED: &str = "schedule_execution_completed";
pub const EXECUTION_LOST: &str = "schedule_execution_lost";
/// A run failed finally: it killed too many workers, or its retries are exhausted.
pub const DISPATCH_DEAD_LETTER: &str = "dispatch_dead_letter";
/// No worker started a run in time.
pub const DISPATCH_EXPIRED: &str = "dispatch_expired";
/// Fire times passed without a dispatch, and the misfire policy does not catch up. The tick writes
/// it.
pub const RUN_MISSED: &str = "run_missed";
/// A user cancelled a waiting run; a running one ends with [`EXECUTION_COMPLETED`].
pub const DISPATCH_CANCELLED: &str = "dispatch_cancelled";
pub const DISPATCH_CANCEL_REQUESTED: &str = "dispatch_cancel_requested";
/// A user retried a finished run; the event belongs to the new run.
pub const DISPATCH_RETRIED: &str = "dispatch_retried";
pub const DEAD_LETTER_DISCARDED: &str = "dead_letter_discarded";
/// Runs wait in a queue that no live worker serves.
pub const QUEUE_UNSERVED: &str = "queue_unserved";
/// A worker serves the queue again, or no run waits in it.
pub const QUEUE_UNSERVED_ENDED: &str = "queue_unserved_ended";

pub const TENANT_PAUSED: &str = "tenant_paused";
pub const TENANT_RESUMED: &str = "tenant_resumed";
pub const PROJECT_CREATED: &str = "project_created";
pub const PROJECT_UPDATED: &str = "project_updated";
pub const PROJECT_DELETED: &str = "project_deleted";
pub const PROJECT_PAUSED: &str = "project_paused";
pub const PROJECT_RESUMED: &str = "project_resumed";
pub const QUEUE_PAUSED: &str = "queue_paused";
pub const QUEUE_RESUMED: &str = "queue_resumed";
pub const QUEUE_DELETED: &str = "queue_deleted";
pub const FUNCTION_CREATED: &str = "function_created";
pub const FUNCTION_UPDATED: &str = "function_updated";
pub const FUNCTION_DELETED: &str = "function_deleted";
pub const FUNCTION_PAUSED: &str = "function_paused";
pub const FUNCTION_RESUMED: &str = "function_resumed";
pub const FUNCTION_ACTIVATED: &str = "function_activated";
/// A user deactivated a task function: it accepts no jobs, and its jobs are disabled when they are
/// due.
pub const FUNCTION_DEACTIVATED: &str = "function_deactivated";
pub const TEMPLATE_CREATED: &str = "template_created";
pub const TEMPLATE_UPDATED: &str = "template_updated";
pub const TEMPLATE_DELETED: &str = "template_deleted";
pub const WORKER_DRAIN_REQUESTED: &str = "worker_drain_requested";
pub const WORKER_DRAIN_ENDED: &str = "worker_drain_ended";

pub const TYPES: &[&str] = &[
    JOB_CREATED,
    JOB_UPDATED,
    JOB_PAUSED,
    JOB_RESUMED,
    JOB_ENABLED,
    JOB_DISABLED,
    JOB_DELETED,
    JOB_RESTORED,
    FUNCTION_CREATED,
    FUNCTION_UPDATED,
    FUNCTION_DELETED,
    FUNCTION_PAUSED,
    FUNCTION_RESUMED,
    FUNCTION_ACTIVATED,
    FUNCTION_DEACTIVATED,
    QUEUE_CREATED,
    QUEUE_UPDATED,
    QUEUE_PAUSED,
    QUEUE_RESUMED,
    QUEUE_DELETED,
    PROJECT_CREATED,
    PROJECT_UPDATED,
    PROJECT_DELETED,
    PROJECT_PAUSED,
    PROJECT_RESUMED,
    TEMPLATE_CREATED,
    TEMPLATE_UPDATED,
    TEMPLATE_DELETED,
    TENANT_PAUSED,
    TENANT_RESUMED,
    EXECUTION_STARTED,
    EXECUTION_COMPLETED,
    EXECUTION_LOST,
    DISPATCH_DEAD_LETTER,
    DISPATCH_EXPIRED,
    RUN_MISSED,
    DISPATCH_CANCELLED,
    DISPATCH_CANCEL_REQUESTED,
    DISPATCH_RETRIED,
    DEAD_LETTER_DISCARDED,
    WORKER_ONLINE,
    WORKER_STOPPED,
    WORKER_OFFLINE,
    WORKER_DRAIN_REQUESTED,
    WORKER_DRAIN_ENDED,
    LEADER_CHANGED,
    STEP_DOWN_REQUESTED,
    QUEUE_UNSERVED,
    QUEUE_UNSERVED_ENDED,
];

statement! {
    Append<'a> = "append/events_append.sql", (
        tenants: &'a [Option<TenantId>] as Array<Nullable<SqlUuid>>,
        projects: &'a [Option<ProjectId>] as Array<Nullable<SqlUuid>>,
        jobs: &'a [Option<JobId>] as Array<Nullable<SqlUuid>>,
        dispatches: &'a [Option<DispatchId>] as Array<Nullable<SqlUuid>>,
        types: &'a [&'a str] as Array<Text>,
        payloads: &'a [&'a serde_json::Value] as Array<Jsonb>,
    ) -> diesel::sql_types::BigInt
}

/// Appends events in their order. An event without a project gets that of its job.
///
/// # Errors
/// The caller's transaction then rolls back.
pub async fn append(conn: &mut Conn, new: &[NewEvent]) -> DbResult<()> {
    if new.is_empty() {
        return Ok(());
    }
    let append = Append {
        tenants: &new.iter().map(|event| event.tenant_id).collect::<Vec<_>>(),
        projects: &new.iter().map(|event| event.project_id).collect::<Vec<_>>(),
        jobs: &new.iter().map(|event| event.job_id).collect::<Vec<_>>(),
        dispatches: &new.iter().map(|event| event.dispatch_id).collect::<Vec<_>>(),
        types: &new.iter().map(|event| event.event_type).collect::<Vec<_>>(),
        payloads: &new.iter().map(|event| &event.payload).collect::<Vec<_>>(),
    };
    append.execute(conn).await?;
    Ok(())
}
