//! Permission for built-in functions. They belong to the installation, whichever tenant their jobs
//! are in: only an operator may change, switch, run or stop such a job.

use sched_model::domain::identity::Permission;
use sched_model::domain::ids::DispatchId;
use sched_model::{Conn, definitions::functions};

use crate::error::ApiError;
use crate::identity::Identity;

pub(super) async fn functions(conn: &mut Conn, who: &Identity, names: &[&str]) -> Result<(), ApiError> {
    judge(!who.operates() && functions::any_is_system(conn, who.tenant(), names).await?)
}

/// Some may not exist.
pub(super) async fn jobs(conn: &mut Conn, who: &Identity, names: &[&str]) -> Result<(), ApiError> {
    judge(!who.operates() && !functions::system_jobs_among(conn, who.tenant(), names).await?.is_empty())
}

/// Some may not exist.
pub(super) async fn dispatches(conn: &mut Conn, who: &Identity, ids: &[DispatchId]) -> Result<(), ApiError> {
    judge(!who.operates() && functions::any_runs_system(conn, who.tenant(), ids).await?)
}

fn judge(is_refused: bool) -> Result<(), ApiError> {
    if is_refused { Err(ApiError::Forbidden(Permission::SystemOperate)) } else { Ok(()) }
}
