//! The command line: all commands, flags and variables, with their help. Addresses are parsed where
//! they are used, so an invalid variable affects only the commands that need it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStr, Resettable};
use clap::error::ContextKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::{
    ApiKeysCommand, AttemptsCommand, AuditEventsCommand, CalendarsCommand, DeadLettersCommand, EventsCommand,
    ExportArgs, FunctionsCommand, JobTypesCommand, JobsCommand, LeaderCommand, MaintenanceCommand,
    MembershipsCommand, MigrateCommand, NotificationsCommand, ProjectsCommand, QueuesCommand, RunsCommand,
    SchedulersCommand, SchedulesCommand, SecretsCommand, TemplatesCommand, TenantsCommand, UsersCommand,
    WorkersCommand,
};
use crate::dev::DevArgs;
use crate::globals::Globals;
use crate::read_only;
use crate::values::within;

/// A test compares these with `sched_runtime::exit`.
const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  any failure without its own code; an awaited run did not succeed; a fire time is unaccounted for
  2  wrong flag, file or configuration
  3  the database is unreachable
  4  the schema is missing, or older or newer than this program needs
  5  the address or port to listen on is not available
  6  the API is unreachable
  7  the API rejected the request
  8  the awaited run ended with another status
  9  the awaited result did not arrive in time";

/// Control sched: its schema, its jobs and their history, and a private installation for
/// development
#[derive(Debug, Parser)]
#[command(name = "schedctl", version, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// For help pages: `--watch` only on commands that accept it.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let watch = command.get_arguments().find(|flag| flag.get_id() == "watch").cloned();
    match watch {
        Some(watch) => without_watch(command, &mut Vec::new(), &watch.hide(true)),
        None => command,
    }
}

/// Hides `--watch` on commands that do more than read.
fn without_watch(command: clap::Command, words: &mut Vec<String>, hidden: &clap::Arg) -> clap::Command {
    let below: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    if below.is_empty() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        return if read_only::only_reads(&words) { command } else { command.arg(hidden.clone()) };
    }
    below.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name.clone(), |inner| {
            words.push(name);
            let inner = without_watch(inner, words, hidden);
            words.pop();
            inner
        })
    })
}

/// Corrects the usage line of an error. The library lists each flag whose value came from a variable,
/// as if it were required.
pub(crate) fn correct_usage(error: &mut clap::Error, args: &[OsString]) {
    let without = without_variables(command()).try_get_matches_from(args).err();
    let without = without.filter(|other| other.kind() == error.kind());
    if let Some(usage) = without.as_ref().and_then(|other| other.get(ContextKind::Usage)) {
        error.insert(ContextKind::Usage, usage.clone());
    }
}

fn without_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.env(Resettable::<OsStr>::Reset)).mut_subcommands(without_variables)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a private PostgreSQL, the API, a scheduler and workers, until Ctrl-C
    Dev(DevArgs),
    /// Show or change the database schema
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Apply, create, list, show, edit, explain, pause, trigger, cancel, delete and restore jobs
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Print the definitions of the tenant as a jobs file for `jobs apply`: queues, calendars,
    /// functions, templates, jobs, notification channels and rules
    Export(ExportArgs),
    /// List audit events: changes with their authors
    #[command(subcommand)]
    AuditEvents(AuditEventsCommand),
    /// Follow or list events, or wait for the end of a run
    #[command(subcommand)]
    Events(EventsCommand),
    /// List, show, explain, cancel and retry runs, print their logs, and reset stuck attempts
    #[command(subcommand)]
    Runs(RunsCommand),
    /// List, show, retry and discard dead letters: runs whose retries are exhausted
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// List and show attempts, and print their output
    #[command(subcommand)]
    Attempts(AttemptsCommand),
    /// Create, list, show, edit, pause, deactivate and delete task functions
    #[command(subcommand)]
    Functions(FunctionsCommand),
    /// List, show, create, pause and delete projects: groups of jobs
    #[command(subcommand)]
    Projects(ProjectsCommand),
    /// List, show and delete templates, and create jobs from them
    #[command(subcommand)]
    Templates(TemplatesCommand),
    /// Configure notifications: channels and rules; list deliveries
    #[command(subcommand)]
    Notifications(NotificationsCommand),
    /// List the kinds of schedule, and set which accept new jobs
    #[command(subcommand)]
    JobTypes(JobTypesCommand),
    /// List, show, delete and import calendars: times at which the jobs that name them do not fire
    #[command(subcommand)]
    Calendars(CalendarsCommand),
    /// List, show, pause and delete queues, and set their limits
    #[command(subcommand)]
    Queues(QueuesCommand),
    /// List, show and drain workers
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// List and show schedulers
    #[command(subcommand)]
    Schedulers(SchedulersCommand),
    /// Show the leader, or hand leadership over to a standby
    #[command(subcommand)]
    Leader(LeaderCommand),
    /// Request an immediate scheduling round, or reset stuck attempts
    #[command(subcommand)]
    Maintenance(MaintenanceCommand),
    /// Preview a schedule, or simulate all jobs of files
    #[command(subcommand)]
    Schedules(SchedulesCommand),
    /// Set, list and delete secrets; generate and rotate their encryption keys
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// List, show, create and pause tenants, and set their quotas
    #[command(subcommand)]
    Tenants(TenantsCommand),
    /// List, show, create, rename and deactivate users; create the first one with --direct
    #[command(subcommand)]
    Users(UsersCommand),
    /// List the members of the tenant, and set their roles
    #[command(subcommand)]
    Memberships(MembershipsCommand),
    /// Create, list and revoke API keys; create the first one with --direct
    #[command(subcommand)]
    ApiKeys(ApiKeysCommand),
    /// Show the identity and permissions of the caller
    Whoami,
    /// Show the status of the installation; exit code 1 if no scheduler leads
    Status,
    /// Show the health of each component; exit code 0 only if the installation works
    ///
    /// For monitoring: the exit code is 1 if a component is unavailable (the database, the schema,
    /// the leader, all workers), and 6 if the API is unreachable. A degraded component is reported
    /// but is not a failure.
    Health,
    /// Count jobs and runs by status, and show the success rate and duration of attempts
    Metrics {
        /// Length of the window in hours, up to now: 1 to 744 (default 24)
        #[arg(long, value_name = "HOURS", value_parser = within(1_u32, 744))]
        hours: Option<u32>,
    },
    /// Write manual pages, one per command
    Man {
        /// Existing directory for the pages, such as /usr/local/share/man/man1
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
    },
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: Shell,
    },
}

#[cfg(test)]
mod tests;
