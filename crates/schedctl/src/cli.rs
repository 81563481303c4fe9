//! The command line: every command, flag and variable, with its help.
//!
//! Shapes and words only; what a command does is in `commands` and `dev`. Reading it has no effects. Addresses are kept as
//! text and parsed where they are used, so that a bad variable disturbs only the commands that need it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use uuid::Uuid;

use crate::commands::{
    ApiKeysCommand, AttemptsCommand, AuditCommand, CalendarsCommand, DeadLettersCommand, EventsCommand,
    ExportArgs, FunctionsCommand, JobTypesCommand, JobsCommand, LeaderCommand, MaintenanceCommand,
    MembershipsCommand, NotificationsCommand, ProjectsCommand, QueuesCommand, RunsCommand, SchedulersCommand,
    SchedulesCommand, SecretsCommand, TemplatesCommand, TenantsCommand, UsersCommand, WorkersCommand,
};
use crate::output::Format;
use crate::values::{duration, id, whole, within};
use crate::watch;

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

/// The command line as its help shows it: `--watch` stands where it is taken.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let watch = command.get_arguments().find(|flag| flag.get_id() == "watch").cloned();
    match watch {
        Some(watch) => without_watch(command, &mut Vec::new(), &watch.hide(true)),
        None => command,
    }
}

/// Gives a hidden flag of its own to each command that does more than read; the shared one leaves it as it is.
fn without_watch(command: clap::Command, words: &mut Vec<String>, hidden: &clap::Arg) -> clap::Command {
    let below: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    if below.is_empty() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        return if watch::only_reads(&words) { command } else { command.arg(hidden.clone()) };
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
    /// Repeat a command that only reads every so many seconds, 2 unless said, until Ctrl-C; elsewhere than on a terminal each change is printed
    #[arg(long, global = true, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = within(1_u64, 86_400))]
    pub(crate) watch: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything here: a private PostgreSQL, the API, a scheduler and workers, until Ctrl-C
    Dev(DevArgs),
    /// Show or change the database's schema
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Apply, make, list, show, edit, explain, pause, trigger, cancel, delete and restore jobs
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Print what there is as a jobs file, which `jobs apply` takes: queues, calendars, functions, templates, jobs, notification channels and rules
    Export(ExportArgs),
    /// Print what a run or an attempt writes, while it runs or afterwards
    Logs(LogsArgs),
    /// List who changed what
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Follow what happens, list it, or wait for it
    #[command(subcommand)]
    Events(EventsCommand),
    /// List, show, explain, cancel and retry runs, fire times and triggers to be executed; end attempts that are stuck
    #[command(subcommand)]
    Runs(RunsCommand),
    /// List, show, retry and discard dead letters: runs that were given up for good
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// List and show attempts, finished attempts at a run, and their output
    #[command(subcommand)]
    Attempts(AttemptsCommand),
    /// Make, list, show, edit, pause, deactivate and delete task functions
    #[command(subcommand)]
    Functions(FunctionsCommand),
    /// List, show, make, pause and delete projects: groups of jobs
    #[command(subcommand)]
    Projects(ProjectsCommand),
    /// List, show and delete templates, and make jobs from them
    #[command(subcommand)]
    Templates(TemplatesCommand),
    /// Say who is told of what: channels, rules, and what was sent
    #[command(subcommand)]
    Notifications(NotificationsCommand),
    /// List the kinds of schedule, and say which accept new jobs
    #[command(subcommand)]
    JobTypes(JobTypesCommand),
    /// List, show, delete and import calendars: times at which the jobs that name them do not fire
    #[command(subcommand)]
    Calendars(CalendarsCommand),
    /// List, show, pause and delete queues, and set their limits
    #[command(subcommand)]
    Queues(QueuesCommand),
    /// List and show workers, and drain them
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// List and show schedulers
    #[command(subcommand)]
    Schedulers(SchedulersCommand),
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
    /// List, show, make and pause tenants, and set their quotas: organisations that share the installation and see nothing of each other
    #[command(subcommand)]
    Tenants(TenantsCommand),
    /// List, show, make and name users, and shut them out; the first one with --direct
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
        #[arg(long, value_name = "HOURS", value_parser = within(1_u32, 744))]
        hours: Option<u32>,
    },
    /// Write manual pages, one for each command, for `man` to show
    Man {
        /// Folder to write them to, which must be there, such as /usr/local/share/man/man1
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
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
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration)]
    pub(crate) once_timeout: Duration,
    /// Port of the API on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", env = "API_PORT", default_value_t = 8080, value_parser = whole::<u16>)]
    pub(crate) api_port: u16,
    /// Number of worker processes
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = within(1_u16, 32))]
    pub(crate) workers: u16,
    /// A worker of your own to run instead of sched-worker, such as one with native handlers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) worker_program: Option<PathBuf>,
    /// Jobs each worker runs at the same time
    #[arg(long, value_name = "COUNT", env = "WORKER_CONCURRENCY", default_value_t = 10, value_parser = within(1_u16, 1000))]
    pub(crate) concurrency: u16,
    /// What the daemons log: off, error, warn, info, debug, trace, or target=level; `warn` without it
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL")]
    pub(crate) log_level: Option<String>,
    /// The same as --log-level info
    #[arg(long, short, conflicts_with = "log_level")]
    pub(crate) verbose: bool,
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
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
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
        #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = within(1, u16::MAX))]
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

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Id of the run, for all its attempts, or of an attempt
    #[arg(value_parser = id)]
    pub(crate) id: Uuid,
    /// Go on until the run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print it as it is, control characters and all
    #[arg(long)]
    pub(crate) raw: bool,
}

#[cfg(test)]
mod tests {
    use sched_runtime::exit;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn watch_stands_in_the_help_of_commands_that_take_it() {
        let help = |line: &str| {
            let words = ["schedctl"].into_iter().chain(line.split(' ')).chain(["--help"]);
            command().try_get_matches_from(words).unwrap_err().to_string()
        };
        for (line, is_shown) in [
            ("jobs list", true),
            ("status", true),
            ("leader status", true),
            ("jobs create", false),
            ("jobs trigger", false),
            ("dev", false),
            ("migrate status", false),
        ] {
            assert_eq!(help(line).contains("--watch"), is_shown, "{line}");
        }
        assert!(help("jobs list").contains("Usage: schedctl jobs list"), "{}", help("jobs list"));
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
        let parsed = Cli::try_parse_from(["schedctl", "runs", "list", "--status", "dead_letter"]);
        assert!(parsed.is_ok(), "{parsed:?}");
        let error = Cli::try_parse_from(["schedctl", "runs", "list", "--status", "dead"]).unwrap_err();
        assert!(error.to_string().contains("dead_letter"), "{error}");
    }

    #[test]
    fn what_is_no_value_of_a_flag_is_answered_in_words_of_the_flag() {
        for (line, flag, said) in [
            ("queues set q --max-running x", "--max-running", "must be a whole number"),
            ("queues set q --default-priority 200", "--default-priority", "from 0 to 100"),
            ("workers drain nope", "<ID>", "must be an id"),
            ("runs get nope", "<ID>", "must be an id"),
            ("dead-letters retry nope", "[ID]", "must be an id"),
            ("attempts list --run nope", "--dispatch", "must be an id"),
            ("events list --run nope", "--dispatch", "must be an id"),
            ("logs nope", "<ID>", "must be an id"),
            ("jobs list --limit 0", "--limit", "1 or more"),
            ("jobs create j --function f --timeout 0s", "--timeout", "a whole number of seconds"),
            ("jobs create j --function f --cron @daily --interval 5m", "--interval", "cannot be used with"),
            ("jobs create j", "--function", "required"),
            ("functions create f --config []", "--config", "must be a JSON object"),
            ("functions create f", "PROGRAM", "required"),
            ("jobs rollback j --to x", "--to", "must be a whole number"),
            ("metrics --hours 1000", "--hours", "from 1 to 744"),
            ("dev --api-port x", "--api-port", "must be a whole number"),
            ("events wait --job j --timeout soon", "--timeout", "length of time"),
            ("api-keys create k --expires-at soon", "--expires-at", "is no instant"),
            ("schedules preview --cron @daily --count x", "--count", "from 1 to 10000"),
        ] {
            let words = ["schedctl"].into_iter().chain(line.split(' '));
            let error = Cli::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains(flag) && error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn a_time_that_lies_back_is_for_the_api_to_judge() {
        for line in [
            "jobs pause j --until -4h",
            "jobs explain j --from -2h --to -1h",
            "events list --since -2h --until -1h",
            "dead-letters list --since -1d",
            "audit list --since -1d",
        ] {
            let parsed = Cli::try_parse_from(["schedctl"].into_iter().chain(line.split(' ')));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }

    #[test]
    fn one_thing_is_got_and_shown_by_every_noun_that_has_one() {
        let mut nouns = Vec::new();
        for noun in Cli::command().get_subcommands() {
            assert!(noun.get_subcommands().all(|verb| verb.get_name() != "show"), "{}", noun.get_name());
            if let Some(get) = noun.find_subcommand("get") {
                assert_eq!(get.get_visible_aliases().collect::<Vec<_>>(), ["show"], "{}", noun.get_name());
                nouns.push(noun.get_name().to_owned());
            }
        }
        nouns.sort();
        assert_eq!(
            nouns,
            [
                "api-keys",
                "audit",
                "calendars",
                "dead-letters",
                "runs",
                "attempts",
                "functions",
                "jobs",
                "projects",
                "queues",
                "schedulers",
                "secrets",
                "templates",
                "tenants",
                "users",
                "workers"
            ]
        );
    }
}
