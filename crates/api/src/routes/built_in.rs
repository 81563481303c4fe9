//! Built-in functions belong to the installation, in whichever tenant their jobs are: who changes, switches, runs or stops such a job has to
//! operate the installation, whatever their role. Everybody who sees the tenant's jobs sees them.

use sched_model::domain::identity::Permission;
use sched_model::domain::ids::DispatchId;
use sched_model::{Conn, definitions::functions};

use crate::error::ApiError;
use crate::identity::Identity;

/// Refuses unless who asks may have these functions run.
pub(super) async fn functions(conn: &mut Conn, who: &Identity, names: &[&str]) -> Result<(), ApiError> {
    judge(!who.operates() && functions::any_is_system(conn, who.tenant(), names).await?)
}

/// Refuses unless who asks may change these jobs, of which some may not be there.
pub(super) async fn jobs(conn: &mut Conn, who: &Identity, names: &[&str]) -> Result<(), ApiError> {
    judge(!who.operates() && !functions::system_jobs_among(conn, who.tenant(), names).await?.is_empty())
}

/// Refuses unless who asks may have these run again, or stop them. Some may not be there.
pub(super) async fn dispatches(conn: &mut Conn, who: &Identity, ids: &[DispatchId]) -> Result<(), ApiError> {
    judge(!who.operates() && functions::any_runs_system(conn, who.tenant(), ids).await?)
}

fn judge(is_refused: bool) -> Result<(), ApiError> {
    if is_refused { Err(ApiError::Forbidden(Permission::SystemOperate)) } else { Ok(()) }
}
