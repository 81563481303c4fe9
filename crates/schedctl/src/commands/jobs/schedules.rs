//! `schedules`: previews of a schedule without a job, and simulations of whole files. Everything is
//! computed locally, with the code of the scheduler. The default start is the clock of this host:
//! nothing is stored, so no database clock applies.

mod args;
mod lines;
mod question;
mod simulate;

use std::io::{self, BufReader, BufWriter};

use chrono::{DateTime, FixedOffset, Utc};
use sched_model::domain::timetable::{FireTime, Preview};
use sched_runtime::exit;
use serde::Serialize;

use crate::commands::Session;
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Column, PrintError, neutral, or_dash, print_notice};

use args::PreviewArgs;

pub(crate) use args::SchedulesCommand;
pub(in crate::commands) use args::{kind, period};
pub(in crate::commands) use question::cron_config;

#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    fire_times: Vec<Fire>,
    description: String,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Fire {
    utc: String,
    local: String,
    note: Option<&'static str>,
    /// Before a calendar moved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_from: Option<String>,
    /// The job is paused then, and skips the fire.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_paused: bool,
}

const FIRES: &[Column<Fire>] = &[
    Column::new("UTC", |fire| fire.utc.clone()),
    Column::new("LOCAL", |fire| fire.local.clone()),
    Column::new("NOTE", |fire| {
        let paused = fire.is_paused.then_some("paused: skipped");
        let notes: Vec<&str> = fire.note.into_iter().chain(paused).collect();
        or_dash(Some(notes.join(", ")).filter(|notes| !notes.is_empty()))
    }),
];

impl From<Preview> for Shown {
    fn from(preview: Preview) -> Self {
        Self {
            fire_times: preview.fire_times.iter().map(Fire::from).collect(),
            description: preview.description,
            warnings: preview.warnings,
        }
    }
}

impl From<sched_wire::Preview> for Shown {
    fn from(preview: sched_wire::Preview) -> Self {
        Self {
            fire_times: preview.fire_times.iter().map(Fire::from).collect(),
            description: preview.description,
            warnings: preview.warnings,
        }
    }
}

impl From<&sched_wire::FireTime> for Fire {
    fn from(fire: &sched_wire::FireTime) -> Self {
        let at = Self::at(fire.utc, fire.local, fire.note.map(|note| note.as_str()), fire.moved_from);
        Self { is_paused: fire.is_paused, ..at }
    }
}

impl From<&FireTime> for Fire {
    fn from(fire: &FireTime) -> Self {
        Self::at(fire.utc, fire.local, fire.note.map(|note| note.as_str()), fire.moved_from)
    }
}

impl Fire {
    fn at(
        utc: DateTime<Utc>,
        local: DateTime<FixedOffset>,
        note: Option<&'static str>,
        moved_from: Option<DateTime<Utc>>,
    ) -> Self {
        let format = chrono::SecondsFormat::AutoSi;
        Self {
            utc: utc.to_rfc3339_opts(format, true),
            local: local.to_rfc3339_opts(format, false),
            note,
            moved_from: moved_from.map(|from| from.to_rfc3339_opts(format, true)),
            is_paused: false,
        }
    }
}

pub(crate) async fn run(command: SchedulesCommand, session: &Session) -> CommandResult {
    match command {
        SchedulesCommand::Preview(args) => preview(&args, session),
        SchedulesCommand::Simulate(args) => simulate::run(&args, present(), session).await,
    }
}

fn preview(args: &PreviewArgs, session: &Session) -> CommandResult {
    if args.stdin {
        return stream(&args.settings(present()));
    }
    let question = args.question(present()).map_err(usage)?;
    show(&question.answer().map_err(usage)?.into(), session)
}

pub(crate) fn show(shown: &Shown, session: &Session) -> CommandResult {
    if !session.output.is_table() {
        session.output.record(shown, &[])?;
        return Ok(exit::OK);
    }
    session.output.print(&format!("{}\n\n", neutral::line(&shown.description)))?;
    session.output.list(&shown.fire_times, FIRES, "nothing fires after that instant")?;
    for warning in &shown.warnings {
        print_notice(&format!("warning: {}", neutral::line(warning)));
    }
    Ok(exit::OK)
}

fn stream(settings: &question::Settings) -> CommandResult {
    let input = BufReader::new(io::stdin().lock());
    match lines::answer_all(input, BufWriter::new(io::stdout().lock()), settings) {
        // A closed pipe (`| head`) is no error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failure(PrintError::Io(error))),
        _ => Ok(exit::OK),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a user previews schedules that no daemon runs; only their default instant comes from here"
)]
fn present() -> DateTime<Utc> {
    Utc::now()
}
