//! Permission for built-in functions. They belong to the installation, whichever tenant their jobs
//! are in: only an operator may change, switch, run or stop such a job. Every caller that
//! sees the jobs of the tenant sees them.

use sched_model::domain::identity::Permission;
use sched_model::domain::ids::DispatchId;
use sched_model::{Conn, definitions::functions};

use crate::error::ApiError;
use crate::identity::Identity;

pub(super) async fn functions(conn: &mut Conn, caller: &Identity, names: &[&str]) -> Result<(), ApiError> {
    reject_if(!caller.operates() && functions::any_is_system(conn, caller.tenant(), names).await?)
}

/// Checks that the caller may change these jobs. Some jobs may not exist.
pub(super) async fn jobs(conn: &mut Conn, caller: &Identity, names: &[&str]) -> Result<(), ApiError> {
    reject_if(
        !caller.operates() && !functions::system_jobs_among(conn, caller.tenant(), names).await?.is_empty(),
    )
}

/// Checks that the caller may retry or cancel these runs. Some runs may not exist.
pub(super) async fn dispatches(
    conn: &mut Conn,
    caller: &Identity,
    ids: &[DispatchId],
) -> Result<(), ApiError> {
    reject_if(!caller.operates() && functions::any_runs_system(conn, caller.tenant(), ids).await?)
}

fn reject_if(is_refused: bool) -> Result<(), ApiError> {
    if is_refused { Err(ApiError::Forbidden(Permission::SystemOperate)) } else { Ok(()) }
}
