//! Events of changes of jobs.

use std::collections::HashMap;

use sched_model::dispatching::cancellations::Order;
use sched_model::domain::ids::{DispatchId, ProjectId, TenantId};
use sched_model::events::append::{self, NewEvent};
use sched_model::jobs::Job;
use sched_model::{Conn, DbResult, identity::tenants};
use serde_json::json;

use crate::identity::Actor;

#[derive(Debug, Clone, Copy)]
pub(in crate::routes) struct JobEvent<'a> {
    pub(in crate::routes) event_type: &'static str,
    /// After the change.
    pub(in crate::routes) job: &'a Job,
}

/// Writes an event for each change, in the same transaction.
pub(in crate::routes) async fn append_job_events(
    conn: &mut Conn,
    changes: &[JobEvent<'_>],
    by: &Actor,
) -> DbResult<()> {
    let mut projects: HashMap<&str, Option<ProjectId>> = HashMap::new();
    let mut new = Vec::new();
    for change in changes {
        let project_id = match change.job.settings.project.as_deref() {
            None => None,
            Some(name) => match projects.get(name) {
                Some(known) => *known,
                None => {
                    let found = tenants::project_by_name(conn, by.tenant, name).await?;
                    projects.insert(name, found);
                    found
                }
            },
        };
        new.push(event(project_id, change, by));
    }
    append::append(conn, &new).await
}

/// For jobs of one project, which may have no name any more.
pub(in crate::routes) async fn append_project_job_events(
    conn: &mut Conn,
    project: Option<ProjectId>,
    changes: &[JobEvent<'_>],
    by: &Actor,
) -> DbResult<()> {
    append::append(conn, &changes.iter().map(|change| event(project, change, by)).collect::<Vec<_>>()).await
}

fn event(project_id: Option<ProjectId>, change: &JobEvent<'_>, by: &Actor) -> NewEvent {
    let JobEvent { event_type, job } = *change;
    NewEvent {
        tenant_id: Some(by.tenant),
        project_id,
        job_id: Some(job.id),
        dispatch_id: None,
        event_type,
        payload: json!({
            "job_name": job.settings.name,
            "project": job.settings.project,
            "version": job.state.version,
            "by": by.source,
        }),
    }
}

/// The waiting runs of a job that an order cancelled.
#[derive(Debug, Clone, Copy)]
pub(in crate::routes) struct Cancellation<'a> {
    pub(in crate::routes) job: &'a Job,
    pub(in crate::routes) runs: &'a [DispatchId],
    pub(in crate::routes) order: Order<'a>,
}

pub(in crate::routes) async fn append_cancelled_runs(
    conn: &mut Conn,
    tenant: TenantId,
    cancellation: Cancellation<'_>,
) -> DbResult<()> {
    let Cancellation { job, runs, order } = cancellation;
    let event = |id: &DispatchId| NewEvent {
        tenant_id: Some(tenant),
        project_id: None,
        job_id: Some(job.id),
        dispatch_id: Some(*id),
        event_type: append::DISPATCH_CANCELLED,
        payload: json!({"job_name": job.settings.name, "reason": order.reason, "by": order.by}),
    };
    // Well below the limit of parameters of a statement.
    for some in runs.chunks(5_000) {
        append::append(conn, &some.iter().map(event).collect::<Vec<_>>()).await?;
    }
    Ok(())
}
