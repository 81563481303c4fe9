//! The states that prevent a cancellation, a retry or a discard of a run. Pure.
//!
//! Each is a 409 with its own code, because clients continue differently.

use sched_model::dispatching::retries::JobBar;
use sched_model::domain::ids::DispatchId;
use sched_model::domain::run_state::DispatchStatus;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Conflict {
    #[error("the run has already ended as {}, so it cannot be cancelled", .0.public_name())]
    Finished(DispatchStatus),
    #[error("the run is {}; only an ended run can be retried, so wait for its end or cancel it", .0.public_name())]
    NotFinished(DispatchStatus),
    #[error("the run succeeded; trigger the job for another run")]
    Succeeded,
    #[error("the dead letter was already retried as run {0}, so it cannot be discarded")]
    AlreadyRetried(DispatchId),
    #[error("{}", blocked(.job, *.bar))]
    Barred { job: String, bar: JobBar },
}

fn blocked(job: &str, bar: JobBar) -> String {
    match bar {
        JobBar::Deleted => format!("job {job:?} is deleted, so its runs cannot be retried"),
        JobBar::Disabled => {
            format!("job {job:?} is disabled; enable it before you retry its runs")
        }
        JobBar::FunctionInactive => {
            format!("the task function of job {job:?} is inactive; activate it first")
        }
    }
}

impl Conflict {
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Finished(_) => "finished",
            Self::NotFinished(_) => "not_finished",
            Self::Succeeded => "succeeded",
            Self::AlreadyRetried(_) => "already_retried",
            Self::Barred { bar, .. } => code_of(*bar),
        }
    }
}

pub(crate) const fn code_of(bar: JobBar) -> &'static str {
    match bar {
        JobBar::Deleted => "job_deleted",
        JobBar::Disabled => "job_disabled",
        JobBar::FunctionInactive => "inactive",
    }
}
