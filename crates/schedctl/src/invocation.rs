//! Runs a parsed command line.

use clap::CommandFactory as _;
use sched_runtime::exit;

use crate::cli::{self, Cli, Command};
use crate::commands::{self, Session, suggestions};
use crate::dev;
use crate::failure::CommandResult;
use crate::output::Output;

pub(crate) async fn run(cli: Cli) -> CommandResult {
    let session = Session::new(cli.globals)?;
    match Box::pin(execute(cli.command, &session)).await {
        Err(error) => Err(suggestions::in_failure(error, &session).await),
        done => done,
    }
}

async fn execute(command: Command, session: &Session) -> CommandResult {
    match command {
        Command::Dev(args) => Box::pin(dev::run(args, &session.globals, &session.here)).await,
        Command::Migrate(command) => commands::operations::migrate::run(command, session).await,
        Command::Jobs(command) => commands::jobs::run(command, session).await,
        Command::Export(args) => commands::jobs::export::run(args, session).await,
        Command::AuditEvents(command) => commands::operations::audit_events::run(command, session).await,
        Command::Events(command) => commands::operations::events::run(command, session).await,
        Command::Runs(command) => commands::runs::runs(command, session).await,
        Command::DeadLetters(command) => commands::runs::dead_letters::run(command, session).await,
        Command::Attempts(command) => commands::runs::attempts(command, session).await,
        Command::Functions(command) => commands::definitions::functions::run(command, session).await,
        Command::Calendars(command) => commands::definitions::calendars::run(command, session).await,
        Command::Projects(command) => commands::definitions::projects::run(command, session).await,
        Command::Templates(command) => commands::definitions::templates::run(command, session).await,
        Command::Notifications(command) => commands::definitions::notifications::run(command, session).await,
        Command::JobTypes(command) => commands::jobs::job_types::run(command, session).await,
        Command::Queues(command) => commands::definitions::queues::run(command, session).await,
        Command::Workers(command) => commands::operations::workers::run(command, session).await,
        Command::Schedulers(command) => commands::operations::fleet::schedulers(command, session).await,
        Command::Leader(command) => commands::operations::leader::run(command, session).await,
        Command::Maintenance(command) => commands::operations::maintenance::run(command, session).await,
        Command::Schedules(command) => commands::jobs::schedules::run(command, session).await,
        Command::Secrets(command) => commands::definitions::secrets::run(command, session).await,
        Command::Tenants(command) => commands::identity::tenants(command, session).await,
        Command::Users(command) => commands::identity::users(command, session).await,
        Command::Memberships(command) => commands::identity::memberships(command, session).await,
        Command::ApiKeys(command) => commands::identity::api_keys(command, session).await,
        Command::Whoami => commands::identity::whoami(session).await,
        Command::Status => commands::operations::status::run(session).await,
        Command::Health => commands::operations::health::run(session).await,
        Command::Metrics { hours } => commands::operations::health::metrics(hours, session).await,
        Command::Man { to } => commands::man::run(cli::command(), &to),
        Command::Completions { shell } => completions(shell, session.output),
    }
}

fn completions(shell: clap_complete::Shell, output: Output) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "schedctl", &mut script);
    output.print(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}
