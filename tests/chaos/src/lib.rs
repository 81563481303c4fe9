//! A complete installation under seeded faults: three schedulers, six workers, two APIs, one
//! PostgreSQL, clients, and a checker of every guarantee. `scripts/chaos` runs it for minutes with
//! many faults, `scripts/soak` for hours with few. `docs/internals/testing-and-proof.md` describes the checks and how to
//! repeat a failure.
//!
//! Everything is on loopback and Unix sockets below one folder. The guard of each process ends it
//! when this program ends. The folder is removed after a success, kept after a failure, and
//! replaced by the next run.

#![expect(
    clippy::indexing_slicing,
    reason = "only JSON is indexed here, which gives null for a missing field"
)]

mod clients;
mod failover;
mod fault_proxy;
mod faults;
mod fleet;
mod follower;
mod jobs;
mod plan;
mod report;
mod run;
mod settle;
mod setup;
mod soak;
mod timeline;
mod upgrade;
mod watch;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use tokio::task::LocalSet;

use crate::plan::Intensity;

/// Runs an installation under faults derived from a seed, and checks the result.
#[derive(Debug, Parser)]
#[command(
    name = "scripts/chaos",
    max_term_width = 110,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Cli {
    #[command(subcommand)]
    other: Option<Other>,
    /// Duration of the faults, in minutes
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    minutes: f64,
    /// Seed of the faults and requests
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    /// Frequency of the faults
    #[arg(long, value_enum, default_value_t = Intensity::Normal)]
    intensity: Intensity,
    /// Folder of the run
    #[arg(long, value_name = "FOLDER", default_value = "target/chaos")]
    into: PathBuf,
    /// Python with the packages of the oracle of fire times
    #[arg(long, value_name = "FILE", required = true)]
    python: Option<PathBuf>,
    /// Permits mounting a disk: this program has its own mount namespace
    #[arg(long)]
    may_mount: bool,
    /// Guards to disable in all daemons, separated by commas; requires programs built for it
    #[arg(long, value_name = "FENCES", default_value = "")]
    without: String,
    /// Programs of another build, to which rolling restarts switch, and back
    #[arg(long, value_name = "FOLDER")]
    other_build: Option<PathBuf>,
    /// Breaks the product in this way, and exits with status 0 when the checker reports it
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(run::mutants::MUTANTS.iter().map(|mutant| mutant.name)))]
    mutant: Option<String>,
    /// Checks the kept run in this folder again, and runs nothing
    #[arg(long, value_name = "FOLDER")]
    check: Option<PathBuf>,
    /// Keeps the folder after any result
    #[arg(long)]
    keep: bool,
}

/// Other modes.
#[derive(Debug, Subcommand)]
enum Other {
    /// A standby replaces the primary; run by `scripts/failover`
    Failover(failover::Cli),
    /// A release replaces the previous one; run by `scripts/rehearse-upgrade`
    Upgrade(upgrade::Cli),
}

/// The entry point of `scripts/chaos` and `scripts/failover`.
///
/// # Errors
/// When the installation cannot be run to the end.
#[tokio::main]
pub async fn chaos() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match &cli.other {
        Some(Other::Failover(cli)) => return Box::pin(LocalSet::new().run_until(failover::run(cli))).await,
        Some(Other::Upgrade(cli)) => return Box::pin(LocalSet::new().run_until(upgrade::run(cli))).await,
        None => {}
    }
    if let Some(folder) = &cli.check {
        return run::again::check(&cli, folder).await;
    }
    let length = Duration::from_secs_f64(cli.minutes.clamp(0.1, 24.0 * 60.0) * 60.0);
    // The wait functions are not `Send`.
    LocalSet::new().run_until(run::run(&cli, length)).await
}

/// The entry point of `scripts/soak`.
///
/// # Errors
/// When the installation cannot be run to the end.
#[tokio::main]
pub async fn soak() -> anyhow::Result<ExitCode> {
    let cli = soak::Cli::parse();
    LocalSet::new().run_until(soak::run(&cli)).await
}
