//! The command lines of `runs` and `attempts`: every command and flag, with its help. Shapes and words only.

use std::time::Duration;

use clap::{Args, Subcommand};
use sched_wire::{AttemptStatus, RunStatus};
use uuid::Uuid;

use crate::commands::jobs::TriggerArgs;
use crate::commands::runs::stuck::ResetStuckArgs;
use crate::values::{at_least_one, duration, id};

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, the newest first unless told otherwise
    List {
        /// Only of this job, by name or id
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// Only in this state
        #[arg(long, value_name = "STATUS", value_parser = run_status)]
        status: Option<RunStatus>,
        /// Only of jobs that run this task function
        #[arg(long, value_name = "NAME")]
        function: Option<String>,
        /// Only of jobs of this project
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Only those of this queue
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// Only those that this worker has claimed last
        #[arg(long, value_name = "ID", value_parser = id)]
        worker: Option<Uuid>,
        /// Only those that this has made: scheduler, manual, api, retry, dependency or backfill
        #[arg(long, value_name = "WHAT")]
        triggered_by: Option<String>,
        /// Only those created then or later: RFC 3339, a time on the clock of UTC, or a distance from now such as -2h
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<String>,
        /// Only those created before then
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        /// List the oldest first
        #[arg(long)]
        oldest_first: bool,
        /// Most runs to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Create a run of a job by hand, to run now: the same as `jobs trigger`
    Create(TriggerArgs),
    /// Explain one run: who made it and why, its attempts, and what it waits for
    Explain {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Show all that is known of one run: its arguments, its error, and how far it is if it runs
    #[command(visible_alias = "show")]
    Get {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Cancel a run: at once if it waits, by its worker if it runs; exit code 7 if it has ended otherwise
    ///
    /// The worker gives the work its soft signal and time to end, and kills what is left then. What is cancelled is not tried again.
    Cancel {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
        /// Why, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Have the leader look at once for attempts whose workers are gone or that should have ended, and end them as lost; or say which
    ///
    /// Their runs are run again as their retry policies say. The leader finds nearly all of it by itself within seconds; by this
    /// command it also looks for attempts that no worker's claim names, which nothing but a change of tables by hand brings about, and ends
    /// those that are still so after a lease of workers. Nothing that a living worker may still run is touched.
    ResetStuck(ResetStuckArgs),
    /// Run a run again that failed, timed out, was cancelled or given up
    ///
    /// A new run does, with the fire time and the arguments of the old one, as its job and function are now. Asking again gives the
    /// same new run. With --wait the exit code is 1 unless it succeeded.
    Retry {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
        #[command(flatten)]
        wait: WaitArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Wait until it has ended; exit code 1 if it ended otherwise than was asked for
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest wait of --wait
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) wait_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AttemptsCommand {
    /// List attempts, the newest first unless told otherwise
    List {
        /// Only of this job, by name or id
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// Only of this run
        #[arg(long, value_name = "ID", value_parser = id)]
        dispatch: Option<Uuid>,
        /// Only those that ended so
        #[arg(long, value_name = "STATUS", value_parser = execution_status)]
        status: Option<AttemptStatus>,
        /// Only of jobs that run this task function
        #[arg(long, value_name = "NAME")]
        function: Option<String>,
        /// Only of jobs that belonged to this project when they ran
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Only those that this worker ran
        #[arg(long, value_name = "ID", value_parser = id)]
        worker: Option<Uuid>,
        /// Only of runs that this has made: scheduler, manual, api, retry, dependency or backfill
        #[arg(long, value_name = "WHAT")]
        triggered_by: Option<String>,
        /// Only those that started then or later: RFC 3339, a time on the clock of UTC, or a distance from now such as -2h
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<String>,
        /// Only those that started before then
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        /// List the oldest first
        #[arg(long)]
        oldest_first: bool,
        /// Most attempts to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show all that is known of one attempt: its error and its result too
    #[command(visible_alias = "show")]
    Get {
        /// Id of the attempt
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Print what an attempt wrote
    Output {
        /// Id of the attempt
        #[arg(value_parser = id)]
        id: Uuid,
        /// Print it as it is, control characters and all
        #[arg(long)]
        raw: bool,
    },
}

fn run_status(text: &str) -> Result<RunStatus, sched_wire::UnknownWord> {
    text.to_ascii_uppercase().parse()
}

fn execution_status(text: &str) -> Result<AttemptStatus, sched_wire::UnknownWord> {
    text.to_ascii_uppercase().parse()
}
