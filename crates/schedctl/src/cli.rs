//! The command line: every command, flag and variable, with its help.
//!
//! Shapes and words only; what a command does is in `commands` and `dev`. Reading it has no effects. Addresses are kept as
//! text and parsed where they are used, so that a bad variable disturbs only the commands that need it.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;
use sched_wire::{DispatchStatus, ExecutionStatus, JobSort, JobStatus, JobType};
use uuid::Uuid;

use crate::commands::{
    ApiKeysCommand, AuditCommand, CalendarsCommand, DeadLettersCommand, EventsCommand, FunctionsCommand,
    JobTypesCommand, LeaderCommand, MaintenanceCommand, MembershipsCommand, ProjectsCommand, QueuesCommand,
    SchedulesCommand, SecretsCommand, TenantsCommand, UsersCommand, WorkersCommand,
};
use crate::output::Format;

/// The codes of `sched_runtime::exit`, for people. A test compares them with the constants.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  anything no other code describes; a job waited for did not succeed; a fire time is not accounted for
  2  wrong usage: flag, file or configuration
  3  the database cannot be reached
  4  the database's schema is missing, older or newer than this program needs
  5  the address or port to listen on is not available
  6  the API cannot be reached
  7  the API refused the request
  8  what was waited for has ended otherwise
  9  what was waited for did not come in time";

/// Controls sched: its schema, its jobs and their history, and a whole private installation for development.
#[derive(Debug, Parser)]
#[command(name = "schedctl", version, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Address of the API; without it that of the running `schedctl dev`, else port 8080 of this machine
    #[arg(long, global = true, value_name = "URL", env = "SCHED_API_URL")]
    pub(crate) api_url: Option<String>,
    /// Key for the API, sent as a bearer token; others on this machine can read it from the command line, so rather name a file
    #[arg(long, global = true, value_name = "KEY", env = "SCHED_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,
    /// File that holds the key and is closed to others; without one the key of the running `schedctl dev`, for its own API
    #[arg(long, global = true, value_name = "FILE", env = "SCHED_API_KEY_FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Folder of `schedctl dev`; without it the first `.sched` from here upwards
    #[arg(long, global = true, value_name = "DIR", env = "SCHED_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// How data is printed on standard output
    #[arg(short, long, global = true, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything here: a private PostgreSQL, the API, a scheduler and workers, until Ctrl-C
    Dev(DevArgs),
    /// Show or change the database's schema
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Apply, list, show, edit, explain, pause, trigger, cancel, delete and restore jobs
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Print what a dispatch or an execution writes, while it runs or afterwards
    Logs(LogsArgs),
    /// List who changed what
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Follow what happens, list it, or wait for it
    #[command(subcommand)]
    Events(EventsCommand),
    /// List, show, explain, cancel and retry dispatches: fire times and triggers to be executed
    #[command(subcommand)]
    Dispatches(DispatchesCommand),
    /// List, show, retry and discard dead letters: dispatches that were given up for good
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// List executions, finished attempts at a dispatch, and show their output
    #[command(subcommand)]
    Executions(ExecutionsCommand),
    /// List, show, pause, deactivate and delete task functions
    #[command(subcommand)]
    Functions(FunctionsCommand),
    /// List, make, pause and delete projects: groups of jobs
    #[command(subcommand)]
    Projects(ProjectsCommand),
    /// List the kinds of schedule, and say which accept new jobs
    #[command(subcommand)]
    JobTypes(JobTypesCommand),
    /// List, show, delete and import calendars: times at which the jobs that name them do not fire
    #[command(subcommand)]
    Calendars(CalendarsCommand),
    /// List queues, pause and delete them and set their limits
    #[command(subcommand)]
    Queues(QueuesCommand),
    /// List workers, and drain them
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// List schedulers
    #[command(subcommand)]
    Schedulers(AllCommand),
    /// Show which scheduler leads, or have another one lead
    #[command(subcommand)]
    Leader(LeaderCommand),
    /// Have the leader look at once at the schedules, or for attempts that are stuck
    #[command(subcommand)]
    Maintenance(MaintenanceCommand),
    /// Show what a schedule would do, before any job has it
    #[command(subcommand)]
    Schedules(SchedulesCommand),
    /// Set, list and delete secrets, values that functions name and nobody is shown; make and rotate their keys
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// List, make and pause tenants, and set their quotas: organisations that share the installation and see nothing of each other
    #[command(subcommand)]
    Tenants(TenantsCommand),
    /// List and make users, and shut them out; the first one with --direct
    #[command(subcommand)]
    Users(UsersCommand),
    /// List who is what in the tenant, and change that
    #[command(subcommand)]
    Memberships(MembershipsCommand),
    /// Make, list and revoke API keys; the first one with --direct
    #[command(subcommand)]
    ApiKeys(ApiKeysCommand),
    /// Show who the API takes you for, and what you may do
    Whoami,
    /// Show the installation at a glance
    Status,
    /// Show how the installation stands, part by part; exit code 0 only if it does its work
    ///
    /// Fit for monitoring: the exit code is 1 when a part is unavailable (the database, the schema, the leader, all workers), and 6 when the
    /// API cannot be asked. A part that is degraded is told of, and no failure.
    Health,
    /// Count jobs and runs by status, and show how many runs succeed and how long they take
    Metrics {
        /// Over how many hours, up to now: 1 to 744; 24 unless said
        #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u32).range(1..=744))]
        hours: Option<u32>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Jobs file to apply once everything runs; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) apply: Vec<PathBuf>,
    /// Wait until every job of the applied files has executed, check that, stop, and exit
    #[arg(long, requires = "apply")]
    pub(crate) once: bool,
    /// Longest wait of --once
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = humantime::parse_duration)]
    pub(crate) once_timeout: Duration,
    /// Port of the API on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", env = "API_PORT", default_value_t = 8080)]
    pub(crate) api_port: u16,
    /// Number of worker processes
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub(crate) workers: u16,
    /// A worker of your own to run instead of sched-worker, such as one with native handlers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) worker_program: Option<PathBuf>,
    /// Jobs each worker runs at the same time
    #[arg(long, value_name = "COUNT", env = "WORKER_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) concurrency: u16,
    /// What the daemons log: off, error, warn, info, debug, trace, or target=level
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: String,
    /// Remove the data of earlier runs first
    #[arg(long)]
    pub(crate) reset: bool,
    /// Do not ask before removing data
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// Database to work on; without it that of the running `schedctl dev`
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// Longest wait for a database that does not answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) wait: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Apply every pending migration, and make the built-in jobs that are missing
    Up {
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Revert migrations, newest first; this drops the data they hold
    Down {
        #[command(flatten)]
        database: DatabaseArgs,
        /// How many migrations to revert
        #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
        steps: u16,
        /// Revert all migrations, to an empty database
        #[arg(long, conflicts_with = "steps")]
        all: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Show every migration and whether the database has it; exit code 4 unless it has exactly all
    Status {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AllCommand {
    /// List them all
    List,
}

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
    /// Only those whose dispatches wait in this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Only those with this kind of schedule: cron, interval, oneoff or manual
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<JobType>,
    /// Only those whose latest finished dispatch ended so, such as FAILED
    #[arg(long, value_name = "STATUS")]
    pub(crate) last_status: Option<DispatchStatus>,
    /// Order: `name`, `next_run_at`, `last_run_at` or `updated_at`; with a minus the other way round
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    pub(crate) sort: Option<JobSort>,
    /// Most jobs to list
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one())]
    pub(crate) limit: usize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Create and change what the files describe, all of it or nothing
    Apply {
        /// YAML or JSON file, `-` for standard input; may be repeated, and is one request all the same
        #[arg(short, long = "file", value_name = "FILE", required = true, action = ArgAction::Append)]
        file: Vec<PathBuf>,
    },
    /// List jobs
    List(JobsListArgs),
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
        #[arg(long, value_name = "VERSION")]
        version: Option<i64>,
        /// Most versions to list
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = at_least_one())]
        limit: usize,
    },
    /// Give a job the settings of an earlier version; that makes a new one
    Rollback {
        /// Name or id
        name: String,
        /// The version whose settings it is to have again
        #[arg(long = "to", value_name = "VERSION")]
        to: i64,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Show one job
    Get {
        /// Name or id
        name: String,
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
        #[arg(long, value_name = "TIME")]
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
    Trigger {
        /// Name or id
        name: String,
        /// Arguments instead of the job's own, a JSON object
        #[arg(long, value_name = "JSON")]
        args: Option<String>,
        /// Triggering again with the same key makes no second dispatch
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Wait until it has ended; exit code 1 unless it succeeded
        #[arg(long)]
        wait: bool,
        /// Longest wait of --wait
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
        wait_timeout: Duration,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only if the job still has this version; exit code 7 otherwise
    #[arg(long, value_name = "VERSION")]
    pub(crate) if_version: Option<i64>,
}

impl VersionArgs {
    /// The entity tag of that version.
    pub(crate) fn tag(&self) -> Option<String> {
        self.if_version.map(|version| format!("\"{version}\""))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum DispatchesCommand {
    /// List dispatches, newest first
    List {
        /// Only of this job, by name or id
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// Only in this state
        #[arg(long, value_name = "STATUS", value_parser = dispatch_status)]
        status: Option<DispatchStatus>,
        /// Most dispatches to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one())]
        limit: usize,
    },
    /// Explain one dispatch: who made it and why, its attempts, and what it waits for
    Explain {
        /// Id of the dispatch
        id: Uuid,
    },
    /// Show one dispatch, and how far it is if it runs
    Show {
        /// Id of the dispatch
        id: Uuid,
    },
    /// Cancel a dispatch: at once if it waits, by its worker if it runs; exit code 7 if it has ended otherwise
    ///
    /// The worker gives the work its soft signal and time to end, and kills what is left then. What is cancelled is not tried again.
    Cancel {
        /// Id of the dispatch
        id: Uuid,
        /// Why, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Run a dispatch again that failed, timed out, was cancelled or given up
    ///
    /// A new dispatch does, with the fire time and the arguments of the old one, as its job and function are now. Asking again gives the
    /// same new dispatch. With --wait the exit code is 1 unless it succeeded.
    Retry {
        /// Id of the dispatch
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
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) wait_timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Id of the dispatch, for all its attempts, or of an execution
    pub(crate) id: Uuid,
    /// Go on until the dispatch has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print it as it is, control characters and all
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExecutionsCommand {
    /// List executions, newest first
    List {
        /// Only of this job, by name or id
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// Only of this dispatch
        #[arg(long, value_name = "ID")]
        dispatch: Option<Uuid>,
        /// Only those that ended so
        #[arg(long, value_name = "STATUS", value_parser = execution_status)]
        status: Option<ExecutionStatus>,
        /// Most executions to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one())]
        limit: usize,
    },
    /// Print what an execution wrote
    Output {
        /// Id of the execution
        id: Uuid,
        /// Print it as it is, control characters and all
        #[arg(long)]
        raw: bool,
    },
}

pub(crate) fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn dispatch_status(text: &str) -> Result<DispatchStatus, sched_wire::UnknownWord> {
    text.to_ascii_uppercase().parse()
}

fn execution_status(text: &str) -> Result<ExecutionStatus, sched_wire::UnknownWord> {
    text.to_ascii_uppercase().parse()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use sched_runtime::exit;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_names_every_exit_code() {
        let codes = [
            exit::OK,
            exit::FAILURE,
            exit::USAGE,
            exit::DATABASE,
            exit::SCHEMA,
            exit::LISTEN,
            exit::REMOTE,
            exit::REFUSED,
            exit::ENDED_OTHERWISE,
            exit::TOO_LATE,
        ];
        let named: Vec<u8> = EXIT_CODES
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(named, codes);
        let readme = include_str!("../README.md");
        for line in EXIT_CODES.lines().skip(1) {
            let code = line.split_whitespace().next().unwrap();
            assert!(readme.contains(&format!("| {code} |")), "the README does not name exit code {code}");
        }
    }

    #[test]
    fn every_flag_with_a_variable_shows_it() {
        let mut help = Cli::command();
        let text = help.find_subcommand_mut("dev").unwrap().render_long_help().to_string();
        assert!(text.contains("[env: API_PORT=") && text.contains("[env: WORKER_CONCURRENCY="), "{text}");
    }

    #[test]
    fn a_status_is_read_in_any_case_and_a_wrong_one_is_answered_with_the_right_ones() {
        let parsed = Cli::try_parse_from(["schedctl", "dispatches", "list", "--status", "dead_letter"]);
        assert!(parsed.is_ok(), "{parsed:?}");
        let error = Cli::try_parse_from(["schedctl", "dispatches", "list", "--status", "dead"]).unwrap_err();
        assert!(error.to_string().contains("DEAD_LETTER"), "{error}");
    }
}
