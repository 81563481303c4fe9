//! `schedules simulate`: all jobs of files together over a window. Nothing is printed unless the
//! whole simulation succeeds.

mod args;
mod jobs;
mod measured;
mod shown;
mod tables;

use anyhow::anyhow;
use chrono::{DateTime, Utc};
use sched_model::domain::simulation::{MOST_STARTS, Options, SimulationError, Window, simulate};
use sched_model::domain::timetable::Zone;
use sched_runtime::exit::{self, ExitError};

use crate::commands::Session;
use crate::failure::{CommandResult, failure, usage};
use crate::manifest::Files;
use crate::output::print_notice;

pub(crate) use args::SimulateArgs;
use shown::Shown;

pub(super) async fn run(args: &SimulateArgs, now: DateTime<Utc>, session: &Session) -> CommandResult {
    let (from, to) = args.window(now);
    let window = Window::new(from, to).map_err(|error| usage(anyhow!("--to: {error}")))?;
    Zone::parse(&args.timezone).map_err(|error| usage(anyhow!("--timezone: {}", error.message())))?;
    let files = Files::read(&args.file)?;
    let mut chosen = jobs::choose(&files, &args.timezone, window)?;
    if args.measured {
        measured::fill_in(&session.api()?, &mut chosen.jobs).await?;
    }
    let options = Options { peaks: args.peaks, most_starts: MOST_STARTS };
    let report = simulate(&chosen.jobs, window, options).map_err(refused)?;
    let shown = Shown::new(&report, &chosen);
    if session.output.is_table() {
        tables::print(&shown, session.output)?;
        return Ok(exit::OK);
    }
    if shown.starts_per_minute.is_none() {
        print_notice("starts_per_minute is left out because of its length; use a shorter window");
    }
    session.output.record(&shown, &[])?;
    Ok(exit::OK)
}

fn refused(error: SimulationError) -> ExitError {
    match error {
        SimulationError::Schedule { .. } => failure(error),
        _ => usage(error),
    }
}
