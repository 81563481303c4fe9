//! Resolves the names in the settings of a job.

use super::super::{Job, refusal::SaveError};
use crate::Conn;
use crate::definitions::{functions, job_types, projects};
use crate::identity::tenants;
use sched_domain::args_schema;
use sched_domain::ids::{FunctionId, ProjectId, TenantId};
use sched_domain::job::JobSettings;

pub(super) struct ResolvedNames {
    pub(super) function: FunctionId,
    pub(super) project: Option<ProjectId>,
}

pub(super) async fn resolve_names(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &JobSettings,
    existing: Option<&Job>,
) -> Result<ResolvedNames, SaveError> {
    let missing = |field, kind, name: &str| SaveError::Missing { field, kind, name: name.to_owned() };
    let is_new_to_job = existing.is_none_or(|job| job.settings.function != settings.function);
    // The present function cannot be deleted while the job uses it.
    let function = match is_new_to_job {
        true => functions::lock_for_use(conn, tenant, &settings.function).await?,
        false => functions::by_name(conn, tenant, &settings.function).await?,
    };
    let function = function.ok_or_else(|| missing("function", "task function", &settings.function))?;
    if is_new_to_job && !function.is_active {
        return Err(SaveError::Inactive { field: "function", name: settings.function.clone() });
    }
    let misfits = args_schema::misfits(function.settings.args_schema.as_ref(), &settings.task_args);
    if !misfits.is_empty() {
        return Err(SaveError::Args(misfits));
    }
    if existing.is_none_or(|job| job.settings.job_type != settings.job_type)
        && !job_types::accepts_jobs(conn, settings.job_type).await?
    {
        return Err(SaveError::TypeInactive(settings.job_type));
    }
    let project = match &settings.project {
        Some(name) => {
            let found = match existing.is_none_or(|job| job.settings.project != settings.project) {
                true => projects::lock_for_use(conn, tenant, name).await?,
                false => tenants::project_by_name(conn, tenant, name).await?,
            };
            Some(found.ok_or_else(|| missing("project", "project", name))?)
        }
        None => None,
    };
    Ok(ResolvedNames { function: function.id, project })
}
