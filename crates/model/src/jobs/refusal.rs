//! Why a job is not written, by what whoever writes it can do about that; and which constraint says what.
//!
//! Writes nothing itself.

use super::super::DbError;
use super::save::SaveMode;
use crate::connection::transaction;
use crate::definitions::dependencies::DependencyError;
use sched_domain::args_schema::Misfit;
use sched_domain::job::{JobSettings, Scope};
use sched_timetable::{JobType, ScheduleError};

/// The key that keeps names of jobs apart.
const NAME_KEY: &str = "scheduled_jobs_tenant_id_name_key";

/// Why a job was not written. Nothing was written then.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Something it names does not exist.
    #[error("{field}: there is no {kind} named {name:?}")]
    Missing {
        /// Field that names it.
        field: &'static str,
        /// Kind of thing.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Something it names accepts no new jobs.
    #[error("{field}: {name:?} is inactive and accepts no new jobs")]
    Inactive {
        /// Field that names it.
        field: &'static str,
        /// The name.
        name: String,
    },
    /// A job of that name exists and must not.
    #[error("name: a job named {0:?} exists already")]
    Exists(String),
    /// The function is built in and is not changed.
    #[error("name: the function {0:?} is built in and cannot be changed")]
    BuiltIn(String),
    /// The tenant has as many jobs as it may.
    #[error("the tenant may have {limit} jobs, and has {used}")]
    Quota {
        /// How many it may have.
        limit: i64,
        /// How many it has already.
        used: i64,
    },
    /// The kind of schedule accepts no new jobs.
    #[error("job_type: {0} is switched off in this installation and accepts no new jobs")]
    TypeInactive(JobType),
    /// Another job holds the only place for this scope and function.
    #[error("function: another job of scope {scope} runs {function:?}; there can be one")]
    SingletonTaken {
        /// The scope.
        scope: Scope,
        /// The function.
        function: String,
    },
    /// It cannot run after another job.
    #[error("after.{entry}.job: {source}")]
    Dependency {
        /// The job.
        job: String,
        /// Which entry of `after` names the other.
        entry: usize,
        /// Why not.
        source: DependencyError,
    },
    /// Its arguments are not what its function takes.
    #[error("task_args: they do not satisfy the args_schema of the function")]
    Args(Vec<Misfit>),
    /// The schedule cannot be computed.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The database said no.
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

/// What the refusal of a constraint means.
pub(super) fn refused(error: diesel::result::Error, settings: &JobSettings, mode: SaveMode) -> SaveError {
    let error = match DbError::from(error) {
        // Somebody created it since we looked: the transaction, run again, finds it and changes it.
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
