//! Why a job is not written, by what the caller can do; and the meaning of each constraint.

use super::super::DbError;
use super::save_mode::SaveMode;
use crate::connection::transaction;
use crate::definitions::dependencies::DependencyError;
use sched_domain::args_schema::Misfit;
use sched_domain::job::{JobSettings, Scope};
use sched_timetable::{JobType, ScheduleError};

const NAME_KEY: &str = "scheduled_jobs_tenant_id_name_key";

/// Why a job was not written; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error("{field}: there is no {kind} named {name:?}")]
    Missing { field: &'static str, kind: &'static str, name: String },
    #[error("{field}: {name:?} is inactive and accepts no new jobs")]
    Inactive { field: &'static str, name: String },
    #[error("name: a job named {0:?} already exists")]
    Exists(String),
    #[error("name: the function {0:?} is built in and cannot be changed")]
    BuiltIn(String),
    #[error("the tenant has {used} jobs and its quota is {limit}")]
    Quota { limit: i64, used: i64 },
    #[error("job_type: {0} is disabled in this installation and accepts no new jobs")]
    TypeInactive(JobType),
    #[error("function: another job of scope {scope} already runs {function:?}; only one is allowed")]
    SingletonTaken { scope: Scope, function: String },
    #[error("after.{entry}.job: {source}")]
    Dependency { job: String, entry: usize, source: DependencyError },
    #[error("task_args: the arguments do not match the args_schema of the function")]
    Args(Vec<Misfit>),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error(transparent)]
    Database(#[from] DbError),
}

impl From<diesel::result::Error> for SaveError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl transaction::TransactionError for SaveError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_retryable())
    }
}

pub(super) fn refused(error: diesel::result::Error, settings: &JobSettings, mode: SaveMode) -> SaveError {
    let error = match DbError::from(error) {
        // A concurrent transaction created the job: this transaction runs again and changes it.
        DbError::Constraint { name, source, .. } if name == NAME_KEY && mode == SaveMode::Upsert => {
            DbError::Collision(source)
        }
        error => error,
    };
    match error.constraint() {
        Some(NAME_KEY) => SaveError::Exists(settings.name.clone()),
        Some("scheduled_jobs_singleton_key") => {
            SaveError::SingletonTaken { scope: settings.scope, function: settings.function.clone() }
        }
        Some("scheduled_jobs_queue_fkey") => SaveError::Missing {
            field: "queue",
            kind: "queue",
            name: settings.queue.clone().unwrap_or_default(),
        },
        _ => SaveError::Database(error),
    }
}
