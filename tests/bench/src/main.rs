//! Benchmarks of the real programs against a real, durable PostgreSQL. Run by `scripts/bench`, which builds what is needed.
//!
//! Starts a private server, measures row after row, prints a table and writes a file. A row that cannot be measured is reported and
//! the others go on; missed bars are shown and are no failure of the run. If the program dies, the server and the daemons
//! end with it, the rows measured so far are in the file, and the next run removes the data. What is measured and why
//! it can be trusted is told in `docs/benchmarks.md` and in each row's module.

mod burst;
mod daemon;
mod figures;
mod limit;
mod place;
mod report;
mod rows;
mod seed;
mod sql;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Parser, Subcommand, ValueEnum};
use futures_util::FutureExt;

use crate::place::Place;
use crate::report::Machine;
use crate::rows::{Bench, Row, Scale};

/// Measures sched on this machine.
#[derive(Debug, Parser)]
#[command(name = "scripts/bench", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The scheduler: rates, lateness, fairness, recovery, idle cost. Takes about 25 minutes and 8 GB of disk.
    ///
    /// Ends with status 0 when every row was measured, whether its bar was reached or not, and with 1 otherwise.
    Scheduler {
        /// Small sizes and few repetitions, in about five minutes: shows that it works, not how fast
        #[arg(long)]
        quick: bool,
        /// Only this row; may be repeated
        #[arg(long, value_name = "NAME", value_enum)]
        only: Vec<Row>,
        /// Folder for the results and, while it runs, the server's data
        #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
        into: PathBuf,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let Command::Scheduler { quick, only, into } = Cli::parse().command;
    let rows = if only.is_empty() { Row::value_variants().to_vec() } else { only };
    let place = Place::open(&into).await?;
    let mut machine = Machine::look(&place, quick).await?;
    let bench = Bench { place: &place, scale: Scale { is_quick: quick }, into: &into };
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    for row in rows {
        let started = sched_runtime::clock::monotonic();
        let name = row.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        eprintln!("measuring {name} …");
        match AssertUnwindSafe(row.measure(&bench)).catch_unwind().await {
            Ok(Ok(measured)) => figures.extend(measured),
            Ok(Err(error)) => failed.push((name.clone(), error)),
            // What panicked has written why to standard error.
            Err(_panic) => failed.push((name.clone(), anyhow!("it panicked"))),
        }
        report::write(&into, &machine, &figures)?;
        eprintln!("  {name} took {:.0} s", started.elapsed().as_secs_f64());
    }
    machine.look_at_load("load after");
    let path = report::write(&into, &machine, &figures)?;
    place.close()?;
    print!("{}", report::table(&machine, &figures));
    println!("\nwritten to {}", path.display());
    for (name, error) in &failed {
        eprintln!("error: {name} could not be measured: {error:#}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
