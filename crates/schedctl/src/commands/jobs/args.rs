//! The command line of `jobs`: every command and flag, with its help. Shapes and words only.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{ArgAction, Args, Subcommand};
use sched_wire::{DEFAULT_PREVIEW, JobSort, JobStatus, JobType, MAX_PREVIEW, RunStatus};

use super::create::CreateArgs;
use crate::values::{at_least_one, duration, instant, whole, within};

/// Which jobs to list, and how.
#[derive(Debug, Args)]
pub(crate) struct JobsListArgs {
    /// The built-in jobs, which keep house, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Deleted jobs too
    #[arg(long)]
    pub(crate) deleted: bool,
    /// Only those with this text in their name or description, whatever its case
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) query: Option<String>,
    /// Only those whose name begins so
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Only those that are enabled, paused, disabled, quarantined or deleted
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<JobStatus>,
    /// Only those that run this task function
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only those of this project
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<String>,
    /// Only those whose runs wait in this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Only those with this kind of schedule: cron, interval, oneoff or manual
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<JobType>,
    /// Only those whose latest finished run ended so, such as FAILED
    #[arg(long, value_name = "STATUS")]
    pub(crate) last_status: Option<RunStatus>,
    /// Only those that were made from this template
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Order: `name`, `next_run_at`, `last_run_at` or `updated_at`; with a minus the other way round
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    pub(crate) sort: Option<JobSort>,
    /// Most jobs to list
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
    pub(crate) limit: usize,
}

/// What to apply, and how.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// YAML or JSON file, `-` for standard input; may be repeated, and is one request all the same
    #[arg(short, long = "file", value_name = "FILE", required = true, action = ArgAction::Append)]
    pub(crate) file: Vec<PathBuf>,
    /// Only say what would be created, changed and deleted, field by field, or what is wrong
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Then delete the jobs of this project that the files do not describe, one by one; they can be restored
    #[arg(long, value_name = "PROJECT")]
    pub(crate) prune: Option<String>,
    /// Do not ask before that
    #[arg(long, short, requires = "prune")]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Create and change what the files describe, all of it or nothing
    Apply(ApplyArgs),
    /// Print the JSON Schema of jobs files, for editors that check what is written
    Schema,
    /// List jobs
    List(JobsListArgs),
    /// Make a job, from flags, from a file or from both; refused if there is one of that name
    Create(Box<CreateArgs>),
    /// Change the settings of a job in an editor (`VISUAL` or `EDITOR`), as YAML
    ///
    /// Nothing is written over a change that somebody else makes in the meantime; the text is kept then, and when it is refused.
    Edit {
        /// Name or id
        name: String,
    },
    /// Delete a job: its history stays, what waits of it is cancelled, what runs goes on, and it can be restored
    Delete {
        /// Name or id
        name: String,
        #[command(flatten)]
        version: VersionArgs,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Restore a deleted job as it was
    Restore {
        /// Name or id; of several deleted jobs of a name the one that was deleted last
        name: String,
        /// Name from now on, when its own is taken
        #[arg(long = "as", value_name = "NAME")]
        new_name: Option<String>,
    },
    /// List the versions of a job, newest first: who changed what, and when
    Versions {
        /// Name, or the id of a deleted job
        name: String,
        /// Show this one with its settings
        #[arg(long, value_name = "VERSION", value_parser = whole::<i64>)]
        version: Option<i64>,
        /// Most versions to list
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = at_least_one)]
        limit: usize,
    },
    /// Give a job the settings of an earlier version; that makes a new one
    Rollback {
        /// Name or id
        name: String,
        /// The version whose settings it is to have again
        #[arg(long = "to", value_name = "VERSION", value_parser = whole::<i64>)]
        to: i64,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Show one job
    #[command(visible_alias = "show")]
    Get {
        /// Name or id
        name: String,
    },
    /// Show when a job will fire, what its schedule says in words, and what may surprise; with its calendars and bounds
    Preview {
        /// Name or id
        name: String,
        /// Show fire times after this instant, in RFC 3339; without it the present of the database
        #[arg(long, value_name = "INSTANT", value_parser = instant)]
        after: Option<DateTime<Utc>>,
        /// How many fire times, at most 1000
        #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_PREVIEW, value_parser = within(1, MAX_PREVIEW))]
        count: usize,
    },
    /// Explain why a job did, or did not, run: every fire time of a window with its one fate, and what its next run waits for; exit code
    /// 1 if one has none
    Explain {
        /// Name or id
        name: String,
        /// Beginning of the window, included: RFC 3339, a time on the clock of the job's zone such as `2026-11-21 10:00`, or a
        /// distance from now such as -2h; a day before the end without it
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        from: Option<String>,
        /// End of the window, not included; now without it
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        to: Option<String>,
        /// One instant instead of a window; where no fire time is there, the nearest ones are named
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
        at: Option<String>,
    },
    /// Hold the schedule of a job; fire times meanwhile are recorded as skipped
    ///
    /// Of a job that is paused already, the pause is changed: a reason or an end that is not named stays as it is.
    Pause {
        /// Name or id
        name: String,
        /// Why, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// When the pause ends by itself, such as +2h or an instant as in `jobs explain`; `never` for when somebody resumes the job, as
        /// for a new pause without it
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Let the schedule of a paused job fire again
    Resume {
        /// Name or id
        name: String,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Let a job have fire times
    Enable {
        /// Name or id
        name: String,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Let a job have no fire times; it can still be triggered
    Disable {
        /// Name or id
        name: String,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Cancel whatever of a job waits or runs; its schedule goes on, so pause or disable it first to have peace
    Cancel {
        /// Name or id
        name: String,
        /// Why, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Run a job now, whatever its schedule says
    Trigger(TriggerArgs),
}

/// What to run now, and how.
#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    /// Name or id of the job
    pub(crate) name: String,
    /// Arguments instead of the job's own, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Triggering again with the same key makes no second run
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait until it has ended; exit code 1 unless it succeeded
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest wait of --wait
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) wait_timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only if the job still has this version; exit code 7 otherwise
    #[arg(long, value_name = "VERSION", value_parser = whole::<i64>)]
    pub(crate) if_version: Option<i64>,
}

impl VersionArgs {
    /// The entity tag of that version.
    pub(crate) fn tag(&self) -> Option<String> {
        self.if_version.map(|version| format!("\"{version}\""))
    }
}
