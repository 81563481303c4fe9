//! What each command does: one module for each noun.
//!
//! A command reads what it needs, asks or tells the API (or, for migrations and first users, the database), and prints. None keeps state
//! of its own; one that fails has printed no data.

mod definitions;
mod identity;
mod jobs;
mod man;
mod operations;
mod runs;
mod suggestions;

use std::path::PathBuf;

use clap::CommandFactory as _;
use sched_runtime::exit::{self, ExitError};
use sched_wire::Page;

use crate::api::Api;
use crate::cli::{Cli, Command, Globals};
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Output, tell};
use crate::{dev, endpoint};

pub(crate) use crate::commands::definitions::calendars::CalendarsCommand;
pub(crate) use crate::commands::definitions::functions::FunctionsCommand;
pub(crate) use crate::commands::definitions::notifications::NotificationsCommand;
pub(crate) use crate::commands::definitions::projects::ProjectsCommand;
pub(crate) use crate::commands::definitions::queues::QueuesCommand;
pub(crate) use crate::commands::definitions::secrets::{SecretsCommand, new_key};
pub(crate) use crate::commands::definitions::templates::TemplatesCommand;
pub(crate) use crate::commands::jobs::export::ExportArgs;
pub(crate) use crate::commands::jobs::job_types::JobTypesCommand;
pub(crate) use crate::commands::jobs::schedules::SchedulesCommand;
pub(crate) use crate::commands::operations::audit::AuditCommand;
pub(crate) use crate::commands::operations::events::EventsCommand;
pub(crate) use crate::commands::operations::fleet::SchedulersCommand;
pub(crate) use crate::commands::operations::leader::LeaderCommand;
pub(crate) use crate::commands::operations::maintenance::MaintenanceCommand;
pub(crate) use crate::commands::operations::migrate::{install, prepare, up, wait_for};
pub(crate) use crate::commands::operations::workers::WorkersCommand;
pub(crate) use crate::commands::runs::dead_letters::DeadLettersCommand;
pub(crate) use identity::{
    ApiKeysCommand, DEV_ENVIRONMENT, MembershipsCommand, TenantsCommand, UsersCommand, ensure_dev_key,
};
pub(crate) use jobs::{JobsCommand, apply, trigger};
pub(crate) use runs::{ATTEMPTS, AttemptsCommand, RunsCommand};

/// What commands share.
#[derive(Debug)]
struct Session {
    globals: Globals,
    here: PathBuf,
    output: Output,
}

impl Session {
    fn api(&self) -> Result<Api, ExitError> {
        let place = endpoint::api(&self.globals, &self.here).map_err(usage)?;
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
        Command::Migrate(command) => crate::commands::operations::migrate::run(command, session).await,
        Command::Jobs(command) => jobs::run(command, session).await,
        Command::Export(args) => crate::commands::jobs::export::run(args, session).await,
        Command::Logs(args) => crate::commands::runs::logs::run(args, session).await,
        Command::Audit(command) => crate::commands::operations::audit::run(command, session).await,
        Command::Events(command) => crate::commands::operations::events::run(command, session).await,
        Command::Runs(command) => runs::dispatches(command, session).await,
        Command::DeadLetters(command) => crate::commands::runs::dead_letters::run(command, session).await,
        Command::Attempts(command) => runs::executions(command, session).await,
        Command::Functions(command) => crate::commands::definitions::functions::run(command, session).await,
        Command::Calendars(command) => crate::commands::definitions::calendars::run(command, session).await,
        Command::Projects(command) => crate::commands::definitions::projects::run(command, session).await,
        Command::Templates(command) => crate::commands::definitions::templates::run(command, session).await,
        Command::Notifications(command) => {
            crate::commands::definitions::notifications::run(command, session).await
        }
        Command::JobTypes(command) => crate::commands::jobs::job_types::run(command, session).await,
        Command::Queues(command) => crate::commands::definitions::queues::run(command, session).await,
        Command::Workers(command) => crate::commands::operations::workers::run(command, session).await,
        Command::Schedulers(command) => {
            crate::commands::operations::fleet::schedulers(command, session).await
        }
        Command::Leader(command) => crate::commands::operations::leader::run(command, session).await,
        Command::Maintenance(command) => {
            crate::commands::operations::maintenance::run(command, session).await
        }
        Command::Schedules(command) => crate::commands::jobs::schedules::run(command, session),
        Command::Secrets(command) => crate::commands::definitions::secrets::run(command, session).await,
        Command::Tenants(command) => identity::tenants(command, session).await,
        Command::Users(command) => identity::users(command, session).await,
        Command::Memberships(command) => identity::memberships(command, session).await,
        Command::ApiKeys(command) => identity::api_keys(command, session).await,
        Command::Whoami => identity::whoami(session).await,
        Command::Status => crate::commands::operations::status::run(session).await,
        Command::Health => crate::commands::operations::health::run(session).await,
        Command::Metrics { hours } => crate::commands::operations::health::metrics(hours, session).await,
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
