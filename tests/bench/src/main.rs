//! Benchmarks of the real programs on a durable PostgreSQL, run by `scripts/bench`.
//!
//! The program starts a private server, measures row after row, and writes a table, JSON, Markdown
//! and plots. A row that cannot be measured is reported, and the other rows continue. A missed bar
//! is no failure of the run. If the program dies, the server and the daemons end with it, and the
//! file has the rows so far. The next run removes the data.

mod api;
mod burst;
mod curves;
mod daemon;
mod figures;
mod latency;
mod limit;
mod report;
mod rows;
mod seed;
mod sql;
mod stamp;
mod worker;
mod workspace;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Parser, Subcommand, ValueEnum};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use crate::figures::Figure;
use crate::report::{Machine, Page};
use crate::rows::{Bench, Scale};
use crate::workspace::Workspace;

/// Each of a thousand workers has a session for its heartbeat.
const MANY_SESSIONS: &str = "max_connections=1200";

/// Measures sched on this machine.
#[derive(Debug, Parser)]
#[command(name = "scripts/bench", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The scheduler: rates, lateness, fairness, recovery, idle cost. Takes about 25 minutes and 8
    /// GB of disk.
    ///
    /// Exits with status 0 if every row was measured, whether or not it reached its bar, otherwise with 1.
    Scheduler {
        #[command(flatten)]
        how: How,
        /// Only this row; may be repeated
        #[arg(long, value_name = "NAME", value_enum)]
        only: Vec<rows::Row>,
    },
    /// The worker: drains, latency, handlers, idle and large fleets. Takes about an hour and 16 GB of disk.
    ///
    /// Exits with status 0 if every row was measured, whether or not it reached its bar, otherwise with 1.
    Worker {
        #[command(flatten)]
        how: How,
        /// Only this row; may be repeated
        #[arg(long, value_name = "NAME", value_enum)]
        only: Vec<worker::Row>,
        /// Also measures graphile-worker and pg-boss; installs them with npm
        #[arg(long)]
        peers: bool,
    },
    /// The API: reads behind a long history, triggers, memory. Takes more than ten minutes.
    ///
    /// Exits with status 0 if every row was measured, whether or not it reached its bar, otherwise with 1.
    Api {
        #[command(flatten)]
        how: How,
        /// Only this row; may be repeated
        #[arg(long, value_name = "NAME", value_enum)]
        only: Vec<api::Row>,
    },
    /// Waiting times: fires, handlers, a new leader, answers. Rows of the other suites together, in
    /// about half an hour.
    ///
    /// Exits with status 0 if every row was measured, whether or not it reached its bar, otherwise with 1.
    Latency {
        #[command(flatten)]
        how: How,
        /// Only this row; may be repeated
        #[arg(long, value_name = "NAME", value_enum)]
        only: Vec<latency::Row>,
        /// Also measures graphile-worker and pg-boss; installs them with npm
        #[arg(long)]
        peers: bool,
    },
}

#[derive(Debug, Args)]
struct How {
    /// Small sizes and few repetitions, in about five minutes: a smoke test, not a measurement
    #[arg(long)]
    quick: bool,
    /// Folder for the results and, while it runs, the server's data
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    into: PathBuf,
}

struct Waiting<'a> {
    name: String,
    measured: LocalBoxFuture<'a, anyhow::Result<Vec<Figure>>>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Scheduler { how, only } => {
            let workspace = Workspace::open(&how.into, &[]).await?;
            let bench =
                Bench { workspace: &workspace, scale: Scale { is_quick: how.quick }, into: &how.into };
            let waiting = chosen(only, |row| row.measure(&bench).boxed_local());
            let succeeded = measure("scheduler", &daemon::program()?, &bench, waiting).await?;
            workspace.close()?;
            Ok(succeeded)
        }
        Command::Worker { how, only, peers } => {
            let workspace = Workspace::open(&how.into, &[MANY_SESSIONS]).await?;
            let bench =
                Bench { workspace: &workspace, scale: Scale { is_quick: how.quick }, into: &how.into };
            let peers = if peers { Some(worker::Peers::install(&how.into).await?) } else { None };
            let waiting = chosen(only, |row| row.measure(&bench, peers.as_ref()).boxed_local());
            let succeeded = measure("worker", &worker::program()?, &bench, waiting).await?;
            workspace.close()?;
            Ok(succeeded)
        }
        Command::Api { how, only } => {
            let workspace = Workspace::open(&how.into, &[]).await?;
            let bench =
                Bench { workspace: &workspace, scale: Scale { is_quick: how.quick }, into: &how.into };
            let waiting = chosen(only, |row| row.measure(&bench).boxed_local());
            let succeeded = measure("api", &api::program()?, &bench, waiting).await?;
            workspace.close()?;
            Ok(succeeded)
        }
        Command::Latency { how, only, peers } => {
            let workspace = Workspace::open(&how.into, &[]).await?;
            let bench =
                Bench { workspace: &workspace, scale: Scale { is_quick: how.quick }, into: &how.into };
            let peers = if peers { Some(worker::Peers::install(&how.into).await?) } else { None };
            let waiting = chosen(only, |row| row.measure(&bench, peers.as_ref()).boxed_local());
            let succeeded = measure("latency", &daemon::program()?, &bench, waiting).await?;
            workspace.close()?;
            Ok(succeeded)
        }
    }
}

fn chosen<'a, R: ValueEnum>(
    only: Vec<R>,
    measure: impl Fn(R) -> LocalBoxFuture<'a, anyhow::Result<Vec<Figure>>>,
) -> Vec<Waiting<'a>> {
    let rows = if only.is_empty() { R::value_variants().to_vec() } else { only };
    let named = |row: R| Waiting {
        name: row.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()),
        measured: measure(row),
    };
    rows.into_iter().map(named).collect()
}

async fn measure(
    suite: &str,
    program: &Path,
    bench: &Bench<'_>,
    rows: Vec<Waiting<'_>>,
) -> anyhow::Result<ExitCode> {
    let mut machine = Machine::inspect(bench.workspace, program, bench.scale.is_quick).await?;
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    for Waiting { name, measured } in rows {
        let started = sched_runtime::monotonic_clock::monotonic();
        eprintln!("measuring {name} …");
        match AssertUnwindSafe(measured).catch_unwind().await {
            Ok(Ok(measured)) => figures.extend(measured),
            Ok(Err(error)) => failed.push((name.clone(), error)),
            // The panic message is on standard error.
            Err(_panic) => failed.push((name.clone(), anyhow!("the row panicked"))),
        }
        report::write(bench.into, suite, &machine, &figures)?;
        eprintln!("  {name} took {:.0} s", started.elapsed().as_secs_f64());
    }
    machine.look_at_load("load after");
    let path = report::write(bench.into, suite, &machine, &figures)?;
    let plots = curves::draw(bench.into, suite, figures.iter().flat_map(|figure| &figure.curves))?;
    let page = Page { name: suite, machine: &machine, figures: &figures, plots: &plots };
    let page = report::write_page(bench.into, &page)?;
    print!("{}", report::table(&machine, &figures));
    println!("\nwritten to {} and {}; plots: {}", path.display(), page.display(), plots.join(" "));
    for (name, error) in &failed {
        eprintln!("error: {name} could not be measured: {error:#}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
