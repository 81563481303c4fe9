//! A whole installation under seeded faults: three schedulers, six workers, two APIs and one PostgreSQL, clients that use them, and a checker of
//! everything they were to keep. Run by `scripts/chaos` for minutes with many faults and by `scripts/soak` for hours with few; `docs/proof.md` says what is checked and
//! how a failure is repeated.
//!
//! Everything runs on loopback and Unix sockets below one folder. Whatever ends this program ends all it has started, by guards of each process; the folder is removed
//! when all is well, kept when something is broken, and replaced by the next run.

#![expect(
    clippy::indexing_slicing,
    reason = "what is indexed here is JSON, which gives null where there is nothing"
)]

mod again;
mod clients;
mod clocks;
mod dice;
mod drains;
mod enough;
mod failover;
mod faults;
mod fleet;
mod follower;
mod jobs;
mod mutants;
mod place;
mod plan;
mod report;
mod run;
mod settle;
mod setup;
mod snapshot;
mod soak;
mod timeline;
mod upgrade;
mod watch;
mod way;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use tokio::task::LocalSet;

use crate::plan::Intensity;

/// Runs an installation under faults that follow from a seed, and checks what it left.
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
    /// How long faults are made
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    minutes: f64,
    /// What faults and requests follow from
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    /// How often there is a fault
    #[arg(long, value_enum, default_value_t = Intensity::Normal)]
    intensity: Intensity,
    /// Folder of the run
    #[arg(long, value_name = "FOLDER", default_value = "target/chaos")]
    into: PathBuf,
    /// The Python that has what the oracle of fire times needs
    #[arg(long, value_name = "FILE", required = true)]
    python: Option<PathBuf>,
    /// A disk may be mounted: this program has mounts of its own
    #[arg(long)]
    may_mount: bool,
    /// Guards that all daemons do without, separated by commas; takes programs that were built for it
    #[arg(long, value_name = "FENCES", default_value = "")]
    without: String,
    /// Programs of another build, to which rolling restarts go, and back
    #[arg(long, value_name = "FOLDER")]
    other_build: Option<PathBuf>,
    /// Breaks the product in this way, and ends with status 0 when the checker says so
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(mutants::MUTANTS.iter().map(|mutant| mutant.name)))]
    mutant: Option<String>,
    /// Decides once more about the run in this folder, which was kept, and runs nothing
    #[arg(long, value_name = "FOLDER")]
    check: Option<PathBuf>,
    /// Keeps the folder, whatever comes of it
    #[arg(long)]
    keep: bool,
}

/// What else there is to run.
#[derive(Debug, Subcommand)]
enum Other {
    /// A server that takes the place of another; run by `scripts/failover`
    Failover(failover::Cli),
    /// A release that takes the place of the one before; run by `scripts/rehearse-upgrade`
    Upgrade(upgrade::Cli),
}

/// What `scripts/chaos` and `scripts/failover` run; the status says what came of it.
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
        return again::check(&cli, folder).await;
    }
    let length = Duration::from_secs_f64(cli.minutes.clamp(0.1, 24.0 * 60.0) * 60.0);
    // Waits of the tests are not for any thread.
    LocalSet::new().run_until(run::run(&cli, length)).await
}

/// What `scripts/soak` runs; the status says what came of it.
///
/// # Errors
/// When the installation cannot be run to the end.
#[tokio::main]
pub async fn soak() -> anyhow::Result<ExitCode> {
    let cli = soak::Cli::parse();
    LocalSet::new().run_until(soak::run(&cli)).await
}
