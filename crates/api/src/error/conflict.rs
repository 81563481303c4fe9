//! Why a run cannot be cancelled, retried or discarded in its present state.
//!
//! Pure. Each answer is 409 with an own code, because clients continue differently after each.

use sched_model::dispatching::retries::JobBar;
use sched_model::domain::dispatch::DispatchStatus;
use sched_model::domain::ids::DispatchId;

/// The state that conflicts with a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Conflict {
    #[error("the dispatch has finished as {0} and cannot be cancelled any more")]
    Finished(DispatchStatus),
    #[error(
        "the dispatch is {0}; only one that has finished can be run again, so wait for its end or cancel it"
    )]
    NotFinished(DispatchStatus),
    #[error("the dispatch is COMPLETED; trigger the job to have it run once more")]
    Succeeded,
    #[error("the dead letter was retried and cannot be discarded: dispatch {0} runs it again")]
    AlreadyRetried(DispatchId),
    /// The job prevents a retry.
    #[error("{}", barred(.job, *.bar))]
    Barred {
        job: String,
        bar: JobBar,
    },
}

fn barred(job: &str, bar: JobBar) -> String {
    match bar {
        JobBar::Deleted => format!("job {job:?} is deleted; nothing of it is run again"),
        JobBar::Disabled => {
            format!("job {job:?} is disabled; enable it first, or nothing of it is run again")
        }
        JobBar::FunctionInactive => format!("the task function of job {job:?} is inactive"),
    }
}

impl Conflict {
    /// The code of the problem.
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

/// The code for a job whose runs cannot be retried.
pub(crate) const fn code_of(bar: JobBar) -> &'static str {
    match bar {
        JobBar::Deleted => "job_deleted",
        JobBar::Disabled => "job_disabled",
        JobBar::FunctionInactive => "inactive",
    }
}
