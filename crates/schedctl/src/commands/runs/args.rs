//! The command lines of `runs` and `attempts`.

use std::time::Duration;

use clap::{Args, Subcommand};
use sched_wire::{AttemptFilter, RunFilter};
use uuid::Uuid;

use crate::commands::runs::stuck::ResetStuckArgs;
use crate::commands::runs::trigger::TriggerArgs;
use crate::values::{at_least_one, duration, id};

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List {
        /// Only of this job, by name or id
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// Only in this state; `failing` for every kind of failure
        #[arg(long, value_name = "STATUS")]
        status: Option<RunFilter>,
        /// Only of jobs of this task function
        #[arg(long, value_name = "NAME")]
        function: Option<String>,
        /// Only of jobs of this project
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Only runs of this queue
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// Only runs whose last claim is by this worker
        #[arg(long, value_name = "ID", value_parser = id)]
        worker: Option<Uuid>,
        /// Only runs of this source: scheduler, manual, api, retry or dependency
        #[arg(long, value_name = "WHAT")]
        triggered_by: Option<String>,
        /// Only runs created at this instant or later: RFC 3339, a wall-clock time in UTC, or a
        /// distance from now such as -2h
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<String>,
        /// Only runs created before this instant
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        /// List the oldest first
        #[arg(long)]
        oldest_first: bool,
        /// Maximum number of runs to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Run a job now: same as `jobs trigger`
    Create(TriggerArgs),
    /// Explain a run: its source, its attempts, and why it waits
    Explain {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Show all fields of a run: its arguments, its error, and the progress of a running attempt
    #[command(visible_alias = "show")]
    Get {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Cancel a run: a waiting run at once, a running one by its worker; exit code 7 if it has
    /// another final status
    ///
    /// The worker sends the soft stop signal, waits for the grace period, and then kills the
    /// process. A cancelled run is not retried.
    Cancel {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Print the output of a run or an attempt, live or stored
    Logs(LogsArgs),
    /// Request that the leader ends attempts that are lost or overdue, or list them with --dry-run
    ///
    /// Their runs are retried by their retry policies. The leader finds almost all such attempts
    /// automatically within seconds. This command also finds running runs without a claim of a
    /// worker, which only a manual change of tables can cause; they are ended if that still holds
    /// after a lease of workers. Attempts that a live worker may still execute are not touched.
    ResetStuck(ResetStuckArgs),
    /// Retry a finished run that failed, timed out, was cancelled or became a dead letter
    ///
    /// This creates a new run with the fire time and the arguments of the old one, and with the
    /// current settings of the job and its function. Repeating the command returns the same new
    /// run. With --wait the exit code is 1 unless it succeeded.
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
    /// Wait for the end; exit code 1 for another result than requested
    #[arg(long)]
    pub(crate) wait: bool,
    /// Maximum wait of --wait
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) wait_timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Id of a run, for all its attempts, or of a finished attempt
    #[arg(value_parser = id)]
    pub(crate) id: Uuid,
    /// Continue until the run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// With --follow, end with the result of the run: exit code 0 if it succeeded, else the exit code
    /// of the program in its last attempt, or 1 without one
    #[arg(long, requires = "follow")]
    pub(crate) exit_status: bool,
    /// Print control characters unchanged
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AttemptsCommand {
    /// List attempts, newest first
    List {
        /// Only of this job, by name or id
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// Only attempts of this run
        #[arg(long, value_name = "ID", value_parser = id)]
        run: Option<Uuid>,
        /// Only those with this outcome; `failing` for every kind of failure
        #[arg(long, value_name = "STATUS")]
        status: Option<AttemptFilter>,
        /// Only of jobs of this task function
        #[arg(long, value_name = "NAME")]
        function: Option<String>,
        /// Only of jobs that belonged to this project at the time of the attempt
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Only attempts of this worker
        #[arg(long, value_name = "ID", value_parser = id)]
        worker: Option<Uuid>,
        /// Only of runs of this source: scheduler, manual, api, retry or dependency
        #[arg(long, value_name = "WHAT")]
        triggered_by: Option<String>,
        /// Only attempts that started at this instant or later: RFC 3339, a wall-clock time in UTC,
        /// or a distance from now such as -2h
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<String>,
        /// Only attempts that started before this instant
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        /// List the oldest first
        #[arg(long)]
        oldest_first: bool,
        /// Maximum number of attempts to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show all fields of an attempt, with its error and its result
    #[command(visible_alias = "show")]
    Get {
        /// Id of the attempt
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Print the output of an attempt
    Output {
        /// Id of the attempt
        #[arg(value_parser = id)]
        id: Uuid,
        /// Print control characters unchanged
        #[arg(long)]
        raw: bool,
    },
}
