//! Entries of the audit log.
//!
//! They are written in the transaction of the change, in the tenant of its actor. Values of
//! functions that may be secrets are not stored, only their names. Entries about
//! users and credentials are in [`people`].

pub(crate) mod people;

use sched_model::cluster::leadership::Instance;
use sched_model::definitions::calendars::{CalendarRecord, SavedCalendar};
use sched_model::definitions::functions::{Change, Function, FunctionSettings};
use sched_model::definitions::queues::QueueSettings;
use sched_model::definitions::secrets::{SavedSecret, SecretRecord};
use sched_model::dispatching::cancellations::{CancelledRuns, JobRef, Order};
use sched_model::dispatching::retries::Retry;
use sched_model::domain::ids::{DispatchId, FunctionId, JobId};
use sched_model::domain::job::JobSettings;
use sched_model::identity::audit::AuditEntry;
use sched_model::jobs::{Job, SavedJob};
use sched_wire::DeadLettersCommand;
use serde::Serialize;
use serde_json::{Value, json};

use crate::convert::hidden::{Sight, hide_variables};
use crate::identity::Actor;

pub(crate) fn of_job(saved: &SavedJob, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: if saved.before.is_some() { "update_job" } else { "create_job" },
        target_type: "job",
        target_id: saved.job.id.to_string(),
        before: saved.before.as_ref().map(plain),
        after: Some(plain(&saved.job.settings)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// A job that was rolled back, deleted (no `after`), or restored (no `before`).
pub(crate) fn of_changed_job(
    action: &'static str,
    job: JobId,
    (before, after): (Option<&JobSettings>, Option<&JobSettings>),
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action,
        target_type: "job",
        target_id: job.to_string(),
        before: before.map(plain),
        after: after.map(plain),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_switched_job(action: &'static str, before: &Job, after: &Job, by: &Actor) -> AuditEntry {
    let flags = |job: &Job| {
        json!({
            "is_enabled": job.settings.is_enabled,
            "is_paused": job.state.is_paused,
            "pause_reason": job.state.pause_reason,
            "paused_until": job.state.paused_until,
            "version": job.state.version,
        })
    };
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action,
        target_type: "job",
        target_id: after.id.to_string(),
        before: Some(flags(before)),
        after: Some(flags(after)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_function(
    id: FunctionId,
    before: Option<&FunctionSettings>,
    after: &FunctionSettings,
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: if before.is_some() { "update_task_function" } else { "create_task_function" },
        target_type: "task_function",
        target_id: id.to_string(),
        before: before.map(without_secrets),
        after: Some(without_secrets(after)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_deleted_function(function: &Function, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "delete_task_function",
        target_type: "task_function",
        target_id: function.id.to_string(),
        before: Some(without_secrets(&function.settings)),
        after: None,
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_calendar(saved: &SavedCalendar, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: if saved.before.is_some() { "update_calendar" } else { "create_calendar" },
        target_type: "calendar",
        target_id: saved.calendar.id.to_string(),
        before: saved.before.as_ref().map(plain),
        after: Some(plain(&saved.calendar.settings())),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_deleted_calendar(calendar: &CalendarRecord, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "delete_calendar",
        target_type: "calendar",
        target_id: calendar.id.to_string(),
        before: Some(plain(&calendar.settings())),
        after: None,
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_queue(before: Option<&QueueSettings>, after: &QueueSettings, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: if before.is_some() { "update_queue" } else { "create_queue" },
        target_type: "queue",
        target_id: after.name.clone(),
        before: before.map(plain),
        after: Some(plain(after)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_deleted_queue(queue: &QueueSettings, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "delete_queue",
        target_type: "queue",
        target_id: queue.name.clone(),
        before: Some(plain(queue)),
        after: None,
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_secret(project: Option<&str>, saved: &SavedSecret, by: &Actor) -> AuditEntry {
    let is_new = saved.change == Change::Created;
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: if is_new { "create_secret" } else { "update_secret" },
        target_type: "secret",
        target_id: saved.secret.id.to_string(),
        before: None,
        after: Some(secret(&saved.secret, project)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_deleted_secret(project: Option<&str>, deleted: &SecretRecord, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "delete_secret",
        target_type: "secret",
        target_id: deleted.id.to_string(),
        before: Some(secret(deleted, project)),
        after: None,
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// Re-encrypted secrets, of any tenants.
pub(crate) fn of_rotation(key: &str, rotated: usize, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: None,
        actor: by.actor.clone(),
        action: "rotate_secrets",
        target_type: "secret_key",
        target_id: key.to_owned(),
        before: None,
        after: Some(json!({"rotated": rotated})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// Contains nothing that derives from the value.
fn secret(secret: &SecretRecord, project: Option<&str>) -> Value {
    json!({"name": secret.name, "project": project, "version": secret.version, "key": secret.key_id})
}

pub(crate) fn of_cancelled_dispatch(
    id: DispatchId,
    stopped: &CancelledRuns,
    order: &Order<'_>,
    by: &Actor,
) -> AuditEntry {
    let is_closed = !stopped.closed.is_empty();
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "cancel_run",
        target_type: "run",
        target_id: id.to_string(),
        before: Some(json!({"status": if is_closed { "PENDING" } else { "IN_PROGRESS" }})),
        after: Some(
            json!({"state": if is_closed { "cancelled" } else { "requested" }, "reason": order.reason}),
        ),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_cancelled_job(
    stricken: &JobRef,
    stopped: &CancelledRuns,
    order: &Order<'_>,
    by: &Actor,
) -> AuditEntry {
    let (cancelled, requested) = (stopped.closed.len(), stopped.requested.len());
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "cancel_dispatches",
        target_type: "job",
        target_id: stricken.job_id.to_string(),
        before: None,
        after: Some(json!({"cancelled": cancelled, "requested": requested, "reason": order.reason})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_retry(retry: &Retry, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "retry_run",
        target_type: "run",
        target_id: retry.of.to_string(),
        before: None,
        after: Some(json!({"dispatch_id": retry.dispatch_id})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_discarded(id: DispatchId, reason: Option<&str>, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "discard_dead_letter",
        target_type: "run",
        target_id: id.to_string(),
        before: None,
        after: Some(json!({"state": "discarded", "reason": reason})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// The counts of a command for dead letters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettlementCounts {
    pub(crate) done: usize,
    pub(crate) refused: usize,
}

pub(crate) fn of_dead_letters(
    action: &'static str,
    command: &DeadLettersCommand,
    counts: SettlementCounts,
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action,
        target_type: "tenant",
        target_id: by.tenant.to_string(),
        before: None,
        after: Some(json!({"meant": plain(command), "count": counts.done, "refused": counts.refused})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(crate) fn of_step_down(leader: &Instance, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action: "request_step_down",
        target_type: "scheduler_instance",
        target_id: leader.id.to_string(),
        before: None,
        after: Some(json!({"term": leader.term, "hostname": leader.hostname, "pid": leader.pid})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

fn without_secrets(function: &FunctionSettings) -> Value {
    let handler_config = hide_variables(function.handler_config.clone(), Sight::Editor);
    plain(&FunctionSettings { handler_config, ..function.clone() })
}

pub(crate) fn plain(settings: &impl Serialize) -> Value {
    // Plain data with text keys: this cannot fail.
    serde_json::to_value(settings).unwrap_or_default()
}
