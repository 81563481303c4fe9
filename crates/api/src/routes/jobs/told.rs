//! Events of changes of jobs, for those who listen.

use std::collections::HashMap;

use sched_model::db::events::{self, NewEvent};
use sched_model::db::jobs::Job;
use sched_model::db::{Conn, DbResult, tenants};
use sched_model::domain::ids::{ProjectId, TenantId};
use serde_json::json;

use crate::identity::By;

/// What became of a job.
#[derive(Debug, Clone, Copy)]
pub(in crate::routes) struct Told<'a> {
    /// What happened.
    pub(in crate::routes) event_type: &'static str,
    /// The job as it is now.
    pub(in crate::routes) job: &'a Job,
}

/// Writes an event for each change, in the transaction of the changes.
pub(in crate::routes) async fn tell(
    conn: &mut Conn,
    tenant: TenantId,
    told: &[Told<'_>],
    by: &By,
) -> DbResult<()> {
    let mut projects: HashMap<&str, Option<ProjectId>> = HashMap::new();
    let mut new = Vec::new();
    for Told { event_type, job } in told {
        let project_id = match job.settings.project.as_deref() {
            None => None,
            Some(name) => match projects.get(name) {
                Some(known) => *known,
                None => {
                    let found = tenants::project_by_name(conn, tenant, name).await?;
                    projects.insert(name, found);
                    found
                }
            },
        };
        new.push(NewEvent {
            tenant_id: Some(tenant),
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
        });
    }
    events::append(conn, &new).await
}
