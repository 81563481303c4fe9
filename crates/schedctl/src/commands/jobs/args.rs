//! The command line of `jobs`.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{ArgAction, Args, Subcommand};
use sched_wire::{DEFAULT_PREVIEW, JobSort, JobStatus, JobType, MAX_PREVIEW, RunFilter};

use super::create::CreateArgs;
use super::validate::ValidateArgs;
use crate::commands::runs::trigger::TriggerArgs;
use crate::values::{at_least_one, instant, whole, within};

#[derive(Debug, Args)]
pub(crate) struct JobsListArgs {
    /// Include the built-in maintenance jobs
    #[arg(long)]
    pub(crate) all: bool,
    /// Include deleted jobs
    #[arg(long)]
    pub(crate) deleted: bool,
    /// Only jobs with this text in their name or description; case is ignored
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) query: Option<String>,
    /// Only jobs whose name has this prefix
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Only jobs in this state: enabled, paused, disabled, quarantined or deleted
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<JobStatus>,
    /// Only jobs of this task function
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only jobs of this project
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<String>,
    /// Only jobs whose runs wait in this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Only jobs with this kind of schedule: cron, interval, oneoff or manual
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<JobType>,
    /// Only those whose latest finished run ended so; `failing` for every kind of failure
    #[arg(long, value_name = "STATUS")]
    pub(crate) last_status: Option<RunFilter>,
    /// Only jobs of this template
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Order: `name`, `next_run_at`, `last_run_at` or `updated_at`; a minus reverses it
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    pub(crate) sort: Option<JobSort>,
    /// Maximum number of jobs to list
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// YAML or JSON file, `-` for standard input; may be repeated; all files are one request
    #[arg(short, long = "file", value_name = "FILE", required = true, action = ArgAction::Append)]
    pub(crate) file: Vec<PathBuf>,
    /// Only show the changes field by field, or the errors
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Afterwards delete the jobs of this project that the files do not describe, one by one; they
    /// can be restored
    #[arg(long, value_name = "PROJECT")]
    pub(crate) prune: Option<String>,
    /// Skip the confirmation of --prune
    #[arg(long, short, requires = "prune")]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Create and change the definitions in files, all of them or none
    Apply(ApplyArgs),
    /// Check files without an API: shapes, and the meaning of jobs, task functions and calendars
    ///
    /// Names that the files do not define, limits of queues, templates and notifications are
    /// checked by `jobs apply --dry-run`. Exit code 2 if there are mistakes.
    Validate(ValidateArgs),
    /// Print the JSON Schema of jobs files, for editors
    Schema,
    /// List jobs
    List(JobsListArgs),
    /// Create a job from flags, a file, or both; fails if one of that name exists
    Create(Box<CreateArgs>),
    /// Edit the settings of a job as YAML in an editor (`VISUAL` or `EDITOR`)
    ///
    /// A concurrent change is not overwritten. The edited text is kept if the change is rejected.
    Edit {
        /// Name or id of the job
        name: String,
    },
    /// Delete a job: its history stays, waiting runs are cancelled, running runs continue; it can
    /// be restored
    Delete {
        /// Name or id of the job
        name: String,
        #[command(flatten)]
        version: VersionArgs,
        /// Skip the confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// Restore a deleted job
    Restore {
        /// Name or id; among deleted jobs of one name, the last deleted one
        name: String,
        /// New name, if its name is in use
        #[arg(long = "as", value_name = "NAME")]
        new_name: Option<String>,
    },
    /// List the versions of a job with their changes and authors, newest first
    Versions {
        /// Name, or the id of a deleted job
        name: String,
        /// Show this version with its settings
        #[arg(long, value_name = "VERSION", value_parser = whole::<i64>)]
        version: Option<i64>,
        /// Maximum number of versions to list
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = at_least_one)]
        limit: usize,
    },
    /// Restore the settings of an earlier version, as a new version
    Rollback {
        /// Name or id of the job
        name: String,
        /// Version whose settings to restore
        #[arg(long = "to", value_name = "VERSION", value_parser = whole::<i64>)]
        to: i64,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Show one job
    #[command(visible_alias = "show")]
    Get {
        /// Name or id of the job
        name: String,
    },
    /// Show the next fire times of a job, its schedule in words, and possible surprises; considers
    /// calendars and bounds
    Preview {
        /// Name or id of the job
        name: String,
        /// Show fire times after this instant (RFC 3339); default: now, by the database clock
        #[arg(long, value_name = "INSTANT", value_parser = instant)]
        after: Option<DateTime<Utc>>,
        /// Number of fire times, at most 1000
        #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_PREVIEW, value_parser = within(1, MAX_PREVIEW))]
        count: usize,
    },
    /// Explain why a job did, or did not, run: the outcome of each fire time of a window, and why
    /// its next run waits; exit code 1 if a fire time has no outcome or two
    Explain {
        /// Name or id of the job
        name: String,
        /// Start of the window, inclusive: RFC 3339, a wall-clock time in the zone of the job such
        /// as `2026-11-21 10:00`, or a distance from now such as -2h; default: a day before the end
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        from: Option<String>,
        /// End of the window, exclusive; default: now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        to: Option<String>,
        /// A single instant instead of a window; if no fire time is there, the nearest ones are
        /// shown
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
        at: Option<String>,
    },
    /// Pause the schedule of a job; its fires are recorded as skipped
    ///
    /// On a paused job this changes the pause; a reason or an end without a flag stays.
    Pause {
        /// Name or id of the job
        name: String,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// When the pause ends automatically, such as +2h or an instant as in `jobs explain`;
        /// `never` (default of a new pause) until the job is resumed
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Resume the schedule of a paused job
    Resume {
        /// Name or id of the job
        name: String,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Enable a job, so that its schedule fires
    Enable {
        /// Name or id of the job
        name: String,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Disable a job: its schedule does not fire, but it can be triggered
    Disable {
        /// Name or id of the job
        name: String,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Cancel all waiting and running runs of a job; its schedule continues, so pause or disable it
    /// first to stop it
    Cancel {
        /// Name or id of the job
        name: String,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Run a job now, independent of its schedule
    Trigger(TriggerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only if the job has this version; exit code 7 otherwise
    #[arg(long, value_name = "VERSION", value_parser = whole::<i64>)]
    pub(crate) if_version: Option<i64>,
}

impl VersionArgs {
    pub(crate) fn tag(&self) -> Option<String> {
        self.if_version.map(|version| format!("\"{version}\""))
    }
}
