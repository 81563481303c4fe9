//! `schedctl dev`: a whole installation in one directory.
//!
//! Starts a private PostgreSQL and the daemons as child processes, and applies jobs files. Stops
//! the workers first, which finish their attempts, then the scheduler, the API, PostgreSQL. A
//! second signal kills. However `schedctl` ends, even by `kill -9`, no process stays; the data
//! stays.
//!
//! All children are started from the main thread, because the kernel ties them to the thread that
//! starts them, not to the process; hence everything below is one future.

mod args;
mod banner;
mod daemon;
mod daemons;
mod installation;
mod leftovers;
mod log;
mod once;
mod ports;
mod postgres;
mod programs;
mod queues;
mod runs;
mod verdict;

use std::path::Path;

use anyhow::anyhow;
use sched_runtime::exit::{self, ExitError};
use sched_runtime::shutdown::Shutdown;
use sched_runtime::{private_file, shield};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;

use crate::api::Api;
use crate::commands;
use crate::consent;
use crate::endpoint::{ApiPlace, DATA_DIR, Source};
use crate::failure::{CommandResult, failure, usage};
use crate::globals::Globals;
use crate::manifest::Files;
use crate::output::Output;

use crate::local_install::Folder;
use installation::Installation;
use log::Log;
use once::Once;
use programs::Programs;

pub(crate) use self::args::DevArgs;

pub(crate) async fn run(args: DevArgs, globals: &Globals, here: &Path) -> CommandResult {
    // Its memory has the API key of the owner, and jobs run as its user.
    shield::hide_process().map_err(failure)?;
    // Reports errors in a file before anything starts.
    let files = if args.apply.is_empty() { None } else { Some(Files::read(&args.apply)?) };
    let programs = Programs::find(args.worker_program.as_deref().map(|own| here.join(own))).map_err(usage)?;
    let shutdown = Shutdown::listen().map_err(failure)?;
    let log = Log::new();
    let dir = here.join(globals.data_dir.as_deref().unwrap_or(Path::new(DATA_DIR)));
    if args.reset && !args.yes && dir.exists() {
        consent::confirm(
            &format!("--reset removes the data in {}", dir.display()),
            "--yes",
            consent::WithoutTerminal::Refuse,
        )?;
    }
    let folder = Folder::own(&dir).map_err(failure)?;
    leftovers::wait_until_gone(&folder, log, &shutdown).await?;
    if args.reset {
        installation::clear(&folder, log).await?;
    }
    let mut installation = Installation::prepare(folder, log);
    let order = Order { args: &args, files: files.as_ref(), programs: &programs, globals };
    let result = tokio::select! {
        result = live(&mut installation, order) => result,
        () = shutdown.soft.cancelled() => {
            log.print("Stopping; press Ctrl-C again to kill everything.");
            if args.once { Err(failure(anyhow!("stopped before every job had run"))) } else { Ok(exit::OK) }
        }
    };
    let stopped = installation.stop(&shutdown.hard).await;
    let code = result?;
    stopped?;
    if shutdown.hard.is_cancelled() {
        return Err(failure(anyhow!("killed by a second signal; the next start recovers the running work")));
    }
    log.print(&format!("Stopped; the data stays in {}.", dir.display()));
    Ok(code)
}

/// The command line and the files and programs that it names.
#[derive(Clone, Copy)]
struct Order<'a> {
    args: &'a DevArgs,
    /// The files of `--apply`.
    files: Option<&'a Files>,
    programs: &'a Programs,
    globals: &'a Globals,
}

async fn live(installation: &mut Installation, order: Order<'_>) -> CommandResult {
    let Order { args, files, programs, globals } = order;
    let queues = files.map(Files::queues).unwrap_or_default();
    Box::pin(installation.start(args, programs, queues)).await?;
    banner::print(installation, globals);
    let url = installation.api_url().parse().map_err(failure)?;
    let key = private_file::read(&installation.folder().api_key()).map_err(failure)?;
    let key = Some(SecretString::from(key.expose_secret().trim().to_owned()));
    let api = Api::new(ApiPlace { url, key, source: Source::Dev(installation.description()) })?;
    let work = work(&api, order, installation.log());
    let (known, mut wanted) = watch::channel(installation.served().clone());
    tokio::select! {
        done = work => done,
        never = runs::print_events(&api, installation.log()) => match never {},
        never = queues::follow(&api, &known) => match never {},
        error = installation.supervise(&mut wanted) => Err(error),
    }
}

async fn work(api: &Api, order: Order<'_>, log: Log) -> CommandResult {
    let Some(files) = order.files else { return std::future::pending().await };
    let started = once::database_time(api).await?;
    apply(api, files, log).await?;
    if !order.args.once {
        return std::future::pending().await;
    }
    let (limit, output) = (order.args.once_timeout, Output::new(order.globals.output));
    Once { api, files, started, limit, log, output }.wait_and_check().await?;
    Ok(exit::OK)
}

async fn apply(api: &Api, files: &Files, log: Log) -> Result<(), ExitError> {
    let result = commands::apply(api, files, false).await?;
    let count = |wanted| result.results.iter().filter(|applied| applied.change == wanted).count();
    log.print(&format!(
        "Applied the files: {} created, {} updated, {} unchanged.",
        count(sched_wire::Change::Created),
        count(sched_wire::Change::Updated),
        count(sched_wire::Change::Unchanged),
    ));
    if result.results.is_empty() {
        return Err(usage(anyhow!("the files of --apply are empty")));
    }
    Ok(())
}
