//! The primary is killed under load, its standby is promoted, and daemons that know both servers
//! find it. Run by `scripts/failover`; `docs/internals/testing-and-proof.md` describes the checks.
//!
//! With a synchronous standby, no acknowledged write may be missing. With an asynchronous standby,
//! whose WAL is held back, missing writes are counted. All started processes end with this program.
//! The next run replaces the folder.

mod crew;
mod losses;
mod probe;
mod round;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

/// The database fails over under load; the guarantees are checked afterwards.
#[derive(Debug, Args)]
pub(crate) struct Cli {
    /// Duration of the load in seconds; the primary is killed after half of it
    #[arg(long, value_name = "N", default_value_t = 20)]
    seconds: u64,
    /// Number of rounds with each kind of replication
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u64,
    /// Seed of the requests
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    /// Folder of the run
    #[arg(long, value_name = "FOLDER", default_value = "target/failover")]
    into: PathBuf,
    /// Python with the packages of the oracle of fire times
    #[arg(long, value_name = "FILE")]
    python: PathBuf,
}

/// Which commits wait for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Every commit.
    Synchronous,
    /// No commit.
    Asynchronous,
}

pub(crate) async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&cli.into)?;
    let into = cli.into.canonicalize()?;
    let lock = std::fs::File::create(into.join("lock"))?;
    if lock.try_lock().is_err() {
        bail!("another run is in progress in {}", into.display());
    }
    let mut lines = Vec::new();
    let mut holds = true;
    for number in 0..cli.rounds {
        for mode in [Mode::Synchronous, Mode::Asynchronous] {
            let outcome = round::run(cli, &into.join("run"), mode, cli.seed + number).await?;
            holds &= outcome.holds;
            lines.push(outcome.line);
        }
    }
    println!("\n{}", round::HEAD);
    for line in lines {
        println!("{line}");
    }
    println!("{}", if holds { "every guarantee holds" } else { "BROKEN" });
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
