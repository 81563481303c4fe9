//! Enables the built-in jobs whose settings this worker has.
//!
//! An installation begins with these jobs disabled, because they need settings of workers. A worker
//! that serves their queue and has the settings enables them. A job that a user has changed stays
//! as it is. Each job is one transaction, guarded by its version, so several workers may try at
//! once. Without a database the worker tries again. The login of a worker may lack the right to change
//! jobs: then a user enables them, and the worker names the command once.

use std::time::Duration;

use sched_model::cluster::housekeeping;
use sched_model::definitions::built_in as jobs;
use sched_model::domain::built_in;
use sched_model::domain::retention::HistoryExpiry;
use sched_model::jobs::SaveError;
use sched_model::{Conn, Database, DbError};
use sched_runtime::tasks::BoxError;
use tokio_util::sync::CancellationToken;

use super::SystemSettings;

/// Time until the next try, and until a changed setting of the schedulers is noticed.
const PERIOD: Duration = Duration::from_secs(60);

/// Component name in the version and the audit log.
const SOURCE: &str = "worker";

/// The jobs that these settings are for, if the worker serves their queue.
pub(crate) fn configured(settings: &SystemSettings, queues: &[String]) -> Vec<&'static str> {
    if !queues.iter().any(|queue| queue == built_in::QUEUE) {
        return Vec::new();
    }
    let archive = settings.archive.as_ref().map(|_| built_in::ARCHIVE);
    let backup = settings.backup_dir.as_ref().map(|_| built_in::BACKUP);
    archive.into_iter().chain(backup).collect()
}

/// Tries until each of the jobs is enabled or belongs to a user, then waits for `stop`.
pub(crate) async fn run(
    database: Database,
    mut names: Vec<&'static str>,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    while !names.is_empty() {
        match pass(&database, &mut names).await {
            Ok(()) => {}
            Err(SaveError::Database(DbError::NoPermission(_))) => {
                tracing::warn!(
                    jobs = ?names,
                    "built-in jobs stay as they are, because the login of this worker may not change jobs; \
                     enable them with `schedctl jobs enable NAME`"
                );
                names.clear();
            }
            Err(SaveError::Database(error)) => {
                let error = error.with_causes();
                tracing::warn!(error, jobs = ?names, "failed to enable built-in jobs; retrying");
            }
            Err(error) => tracing::warn!(%error, jobs = ?names, "failed to enable built-in jobs; retrying"),
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
    stop.cancelled().await;
    Ok(())
}

/// Removes the names that are done.
async fn pass(database: &Database, names: &mut Vec<&'static str>) -> Result<(), SaveError> {
    let mut conn = database.dedicated().await?;
    let mut rest = Vec::new();
    for name in names.iter().copied() {
        if name == built_in::ARCHIVE && !is_history_detached(&mut conn).await? {
            rest.push(name);
            continue;
        }
        if jobs::enable(&mut conn, name, SOURCE).await? {
            tracing::info!(job.name = name, "built-in job enabled: this worker has its settings");
        }
    }
    *names = rest;
    Ok(())
}

/// Without detached months there is nothing to archive.
async fn is_history_detached(conn: &mut Conn) -> Result<bool, SaveError> {
    let settings = housekeeping::load(conn).await?;
    Ok(settings.is_some_and(|settings| settings.expiry == HistoryExpiry::Detach))
}
