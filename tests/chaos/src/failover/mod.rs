//! The database fails over under load: the server that takes writes is killed, the one that follows it is promoted, and daemons that know both
//! find it by themselves. Run by `scripts/failover`; `docs/proof.md` says what is checked.
//!
//! Twice in each round: with a standby that every commit waits for, where nothing that was acknowledged may be missing; and with one that nobody
//! waits for and whose log is held back, where what is missing is counted. Whatever ends this program ends all it has started; the folder is
//! replaced by the next run.

mod crew;
mod losses;
mod probe;
mod round;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

/// The database fails over under load; the promises are checked afterwards.
#[derive(Debug, Args)]
pub(crate) struct Cli {
    /// How long there is load, half of it before the primary is killed
    #[arg(long, value_name = "N", default_value_t = 20)]
    seconds: u64,
    /// How often each way of replicating is tried
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u64,
    /// What requests follow from
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    /// Folder of the run
    #[arg(long, value_name = "FOLDER", default_value = "target/failover")]
    into: PathBuf,
    /// The Python that has what the oracle of fire times needs
    #[arg(long, value_name = "FILE")]
    python: PathBuf,
}

/// Who waits for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Each commit.
    Synchronous,
    /// Nobody.
    Asynchronous,
}

/// Runs all rounds; 0 when everything that was promised holds in each.
pub(crate) async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&cli.into)?;
    let into = cli.into.canonicalize()?;
    let lock = std::fs::File::create(into.join("lock"))?;
    if lock.try_lock().is_err() {
        bail!("another run is going on in {}", into.display());
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
    println!("{}", if holds { "what was promised holds" } else { "BROKEN" });
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
