//! What each command does: one module for each noun.
//!
//! A command reads what it needs, asks or tells the API (or, for migrations and first users, the database), and prints. None keeps state
//! of its own; one that fails has printed no data.

mod audit;
mod calendars;
mod cancel;
mod dead_letters;
mod draft;
mod editing;
mod events;
mod export;
mod fleet;
mod functions;
mod health;
mod identity;
mod job_types;
mod jobs;
mod leader;
mod logs;
mod maintenance;
mod man;
mod migrate;
mod notifications;
mod projects;
mod queues;
mod runs;
mod schedules;
mod secrets;
mod status;
mod stuck;
mod suggestions;
mod templates;
mod workers;

use std::path::PathBuf;

use clap::CommandFactory as _;
use sched_runtime::exit::{self, ExitError};
use sched_wire::Page;

use crate::api::Api;
use crate::cli::{Cli, Command, Globals};
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Output, tell};
use crate::{dev, place};

pub(crate) use audit::AuditCommand;
pub(crate) use calendars::CalendarsCommand;
pub(crate) use dead_letters::DeadLettersCommand;
pub(crate) use events::EventsCommand;
pub(crate) use export::ExportArgs;
pub(crate) use fleet::SchedulersCommand;
pub(crate) use functions::FunctionsCommand;
pub(crate) use identity::{
    ApiKeysCommand, DEV_ENVIRONMENT, MembershipsCommand, TenantsCommand, UsersCommand, ensure_dev_key,
};
pub(crate) use job_types::JobTypesCommand;
pub(crate) use jobs::{JobsCommand, apply, trigger};
pub(crate) use leader::LeaderCommand;
pub(crate) use maintenance::MaintenanceCommand;
pub(crate) use migrate::{install, prepare, up, wait_for};
pub(crate) use notifications::NotificationsCommand;
pub(crate) use projects::ProjectsCommand;
pub(crate) use queues::QueuesCommand;
pub(crate) use runs::{DispatchesCommand, EXECUTIONS, ExecutionsCommand};
pub(crate) use schedules::SchedulesCommand;
pub(crate) use secrets::{SecretsCommand, new_key};
pub(crate) use templates::TemplatesCommand;
pub(crate) use workers::WorkersCommand;

/// What commands share.
#[derive(Debug)]
struct Session {
    globals: Globals,
    here: PathBuf,
    output: Output,
}

impl Session {
    fn api(&self) -> Result<Api, ExitError> {
        let place = place::api(&self.globals, &self.here).map_err(usage)?;
        Ok(Api::new(place)?)
    }
}

/// Runs the command.
pub(crate) async fn run(cli: Cli) -> CommandResult {
    let Cli { globals, command } = cli;
    let here = std::env::current_dir().map_err(failure)?;
    let session = Session { output: Output::new(globals.output), globals, here };
    match Box::pin(done(command, &session)).await {
        Err(error) => Err(suggestions::in_failure(error, &session).await),
        done => done,
    }
}

async fn done(command: Command, session: &Session) -> CommandResult {
    match command {
        Command::Dev(args) => dev::run(args, &session.globals, &session.here).await,
        Command::Migrate(command) => migrate::run(command, session).await,
        Command::Jobs(command) => jobs::run(command, session).await,
        Command::Export(args) => export::run(args, session).await,
        Command::Logs(args) => logs::run(args, session).await,
        Command::Audit(command) => audit::run(command, session).await,
        Command::Events(command) => events::run(command, session).await,
        Command::Dispatches(command) => runs::dispatches(command, session).await,
        Command::DeadLetters(command) => dead_letters::run(command, session).await,
        Command::Executions(command) => runs::executions(command, session).await,
        Command::Functions(command) => functions::run(command, session).await,
        Command::Calendars(command) => calendars::run(command, session).await,
        Command::Projects(command) => projects::run(command, session).await,
        Command::Templates(command) => templates::run(command, session).await,
        Command::Notifications(command) => notifications::run(command, session).await,
        Command::JobTypes(command) => job_types::run(command, session).await,
        Command::Queues(command) => queues::run(command, session).await,
        Command::Workers(command) => workers::run(command, session).await,
        Command::Schedulers(command) => fleet::schedulers(command, session).await,
        Command::Leader(command) => leader::run(command, session).await,
        Command::Maintenance(command) => maintenance::run(command, session).await,
        Command::Schedules(command) => schedules::run(command, session),
        Command::Secrets(command) => secrets::run(command, session).await,
        Command::Tenants(command) => identity::tenants(command, session).await,
        Command::Users(command) => identity::users(command, session).await,
        Command::Memberships(command) => identity::memberships(command, session).await,
        Command::ApiKeys(command) => identity::api_keys(command, session).await,
        Command::Whoami => identity::whoami(session).await,
        Command::Status => status::run(session).await,
        Command::Health => health::run(session).await,
        Command::Metrics { hours } => health::metrics(hours, session).await,
        Command::Man { to } => man::run(&to),
        Command::Completions { shell } => completions(shell, session.output),
    }
}

fn completions(shell: clap_complete::Shell, output: Output) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "schedctl", &mut script);
    output.print(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}

/// Says that a list was cut, and how to see the rest.
fn tell_of_more<T>(page: &Page<T>, limit: usize) {
    if page.next_cursor.is_some() {
        tell(&format!("there are more than {limit}; see them with a larger --limit"));
    }
}
