//! The durable stream of what happened.

use diesel::sql_types::{Array, Jsonb, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

/// One event.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Whose it is; `None` for the installation's.
    pub tenant_id: Option<TenantId>,
    /// Project it concerns.
    pub project_id: Option<ProjectId>,
    /// Job it concerns.
    pub job_id: Option<JobId>,
    /// Dispatch it concerns.
    pub dispatch_id: Option<DispatchId>,
    /// What happened, in `snake_case`.
    pub event_type: &'static str,
    /// Details.
    pub payload: serde_json::Value,
}

/// Somebody made a job.
pub const JOB_CREATED: &str = "job_created";
/// Somebody changed the settings of a job, or took earlier ones back.
pub const JOB_UPDATED: &str = "job_updated";
/// Somebody deleted a job.
pub const JOB_DELETED: &str = "job_deleted";
/// Somebody restored a deleted job.
pub const JOB_RESTORED: &str = "job_restored";
/// Somebody made a queue.
pub const QUEUE_CREATED: &str = "queue_created";
/// Somebody changed a queue: paused or resumed it, or gave it other limits.
pub const QUEUE_UPDATED: &str = "queue_updated";
/// A worker has registered.
pub const WORKER_ONLINE: &str = "worker_online";
/// A worker has ended in order.
pub const WORKER_STOPPED: &str = "worker_stopped";
/// Somebody disabled a job, or the scheduler one that it can no longer schedule.
pub const JOB_DISABLED: &str = "job_disabled";
/// A scheduler has taken over.
pub const LEADER_CHANGED: &str = "leader_changed";
/// An operator asked the leader to step down.
pub const STEP_DOWN_REQUESTED: &str = "leader_step_down_requested";
/// Somebody paused a job.
pub const JOB_PAUSED: &str = "job_paused";
/// Somebody resumed a job.
pub const JOB_RESUMED: &str = "job_resumed";
/// Somebody enabled a job.
pub const JOB_ENABLED: &str = "job_enabled";
/// A worker's lease expired.
pub const WORKER_OFFLINE: &str = "worker_offline";
/// An attempt has begun: a worker has claimed it. Written by the claim.
pub const EXECUTION_STARTED: &str = "schedule_execution_started";
/// An attempt has ended, whatever became of it. Written by what ends it.
pub const EXECUTION_COMPLETED: &str = "schedule_execution_completed";
/// An attempt was lost with its worker.
pub const EXECUTION_LOST: &str = "schedule_execution_lost";
/// A dispatch was given up for good: it killed too many workers, or its retries are exhausted.
pub const DISPATCH_DEAD_LETTER: &str = "dispatch_dead_letter";
/// A dispatch was given up because nobody had begun it in time.
pub const DISPATCH_EXPIRED: &str = "dispatch_expired";
/// Fire times passed without a dispatch, and the misfire policy of their job does not make up for them. Written by the tick, with the
/// record of the skip.
pub const RUN_MISSED: &str = "run_missed";
/// Somebody cancelled a dispatch that waited. The end of one that ran is [`EXECUTION_COMPLETED`].
pub const DISPATCH_CANCELLED: &str = "dispatch_cancelled";
/// Somebody wants a running dispatch stopped.
pub const DISPATCH_CANCEL_REQUESTED: &str = "dispatch_cancel_requested";
/// Somebody had a finished dispatch run again: by the dispatch that the event is about.
pub const DISPATCH_RETRIED: &str = "dispatch_retried";
/// Somebody is done with a dead letter.
pub const DEAD_LETTER_DISCARDED: &str = "dead_letter_discarded";
/// Dispatches wait in a queue that no living worker serves.
pub const QUEUE_UNSERVED: &str = "queue_unserved";
/// The queue is served again, or nothing waits in it any more.
pub const QUEUE_UNSERVED_ENDED: &str = "queue_unserved_ended";

/// The operator of the installation paused a tenant.
pub const TENANT_PAUSED: &str = "tenant_paused";
/// The operator of the installation resumed a tenant.
pub const TENANT_RESUMED: &str = "tenant_resumed";
/// Somebody made a project.
pub const PROJECT_CREATED: &str = "project_created";
/// Somebody changed a project.
pub const PROJECT_UPDATED: &str = "project_updated";
/// Somebody deleted a project.
pub const PROJECT_DELETED: &str = "project_deleted";
/// Somebody paused a project.
pub const PROJECT_PAUSED: &str = "project_paused";
/// Somebody resumed a project.
pub const PROJECT_RESUMED: &str = "project_resumed";
/// Somebody paused a queue.
pub const QUEUE_PAUSED: &str = "queue_paused";
/// Somebody resumed a queue.
pub const QUEUE_RESUMED: &str = "queue_resumed";
/// Somebody deleted a queue.
pub const QUEUE_DELETED: &str = "queue_deleted";
/// Somebody made a task function.
pub const FUNCTION_CREATED: &str = "function_created";
/// Somebody changed a task function.
pub const FUNCTION_UPDATED: &str = "function_updated";
/// Somebody deleted a task function.
pub const FUNCTION_DELETED: &str = "function_deleted";
/// Somebody paused a task function.
pub const FUNCTION_PAUSED: &str = "function_paused";
/// Somebody resumed a task function.
pub const FUNCTION_RESUMED: &str = "function_resumed";
/// Somebody has a task function accept jobs again.
pub const FUNCTION_ACTIVATED: &str = "function_activated";
/// Somebody has a task function accept no jobs; those it has are disabled as they come due.
pub const FUNCTION_DEACTIVATED: &str = "function_deactivated";
/// Somebody made a template.
pub const TEMPLATE_CREATED: &str = "template_created";
/// Somebody changed a template.
pub const TEMPLATE_UPDATED: &str = "template_updated";
/// Somebody deleted a template.
pub const TEMPLATE_DELETED: &str = "template_deleted";
/// An operator asked a worker to take nothing new.
pub const WORKER_DRAIN_REQUESTED: &str = "worker_drain_requested";
/// An operator took that back.
pub const WORKER_DRAIN_ENDED: &str = "worker_drain_ended";

/// Every type there is.
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

/// Appends events to the stream, in their order. What does not name its project gets that of its job.
///
/// # Errors
/// When the database cannot be asked; what the caller did is then rolled back with it.
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
