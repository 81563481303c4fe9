//! `calendars`. An import replaces the whole calendar. The file is parsed here, so `--dry-run`
//! needs no API.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use sched_model::domain::timetable::calendar::from_icalendar;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{Calendar, CalendarSpec, PageQuery};
use serde_json::{Map, Value};

use crate::commands::{Session, print_more};
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Column, or_dash, print_notice, time};
use crate::values::at_least_one;

/// Above the request limit of the API.
const LARGEST: u64 = 4 * 1024 * 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum CalendarsCommand {
    /// List calendars by name
    List {
        /// Maximum number of calendars to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one calendar
    #[command(visible_alias = "show")]
    Get {
        /// Name of the calendar
        name: String,
    },
    /// Delete a calendar; fails while a job names it
    Delete {
        /// Name of the calendar
        name: String,
    },
    /// Import a calendar from an iCalendar file (RFC 5545); replaces the calendar of that name
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// File, or `-` for standard input
    #[arg(value_name = "FILE.ics")]
    file: PathBuf,
    /// Name of the calendar
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Print the calendar without storing it; needs no API
    #[arg(long)]
    dry_run: bool,
}

const LIST: &[Column<Calendar>] = &[
    Column::new("NAME", |calendar| calendar.name.clone()),
    Column::new("TIME ZONE", |calendar| or_dash(field(&calendar.definition, "timezone"))),
    Column::new("EXCLUDES", |calendar| kinds(&calendar.definition)),
    Column::new("VERSION", |calendar| calendar.version.to_string()),
    Column::new("UPDATED", |calendar| time(calendar.updated_at)),
    Column::wide("DESCRIPTION", |calendar| calendar.description.clone()),
    Column::wide("ID", |calendar| calendar.id.to_string()),
];

const GET: &[Column<Calendar>] = &[
    Column::new("Name", |calendar| calendar.name.clone()),
    Column::new("Description", |calendar| calendar.description.clone()),
    Column::new("Time zone", |calendar| or_dash(field(&calendar.definition, "timezone"))),
    Column::new("Dates", |calendar| or_dash(field(&calendar.definition, "dates"))),
    Column::new("Yearly", |calendar| or_dash(field(&calendar.definition, "yearly"))),
    Column::new("Weekly", |calendar| or_dash(field(&calendar.definition, "weekly"))),
    Column::new("Windows", |calendar| or_dash(field(&calendar.definition, "windows"))),
    Column::new("Rules", |calendar| or_dash(field(&calendar.definition, "rules"))),
    Column::new("Except", |calendar| or_dash(field(&calendar.definition, "except"))),
    Column::new("Version", |calendar| calendar.version.to_string()),
    Column::new("Created", |calendar| format!("{} by {}", time(calendar.created_at), calendar.created_by)),
    Column::new("Updated", |calendar| format!("{} by {}", time(calendar.updated_at), calendar.updated_by)),
    Column::new("Id", |calendar| calendar.id.to_string()),
];

const SPEC: &[Column<CalendarSpec>] = &[
    Column::new("Name", |spec| spec.name.clone()),
    Column::new("Description", |spec| or_dash(spec.description.as_deref())),
    Column::new("Time zone", |spec| or_dash(spec.timezone.as_ref().map(shown))),
    Column::new("Dates", |spec| or_dash(spec.dates.as_ref().map(shown))),
    Column::new("Yearly", |spec| or_dash(spec.yearly.as_ref().map(shown))),
    Column::new("Weekly", |spec| or_dash(spec.weekly.as_ref().map(shown))),
    Column::new("Windows", |spec| or_dash(spec.windows.as_ref().map(shown))),
    Column::new("Rules", |spec| or_dash(spec.rules.as_ref().map(shown))),
    Column::new("Except", |spec| or_dash(spec.except.as_ref().map(shown))),
];

pub(crate) async fn run(command: CalendarsCommand, session: &Session) -> CommandResult {
    match command {
        CalendarsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let calendars = session.api()?.list(&["calendars"], limit, query).await?;
            session.output.page(&calendars, LIST, "there are no calendars")?;
            print_more(&calendars, limit);
        }
        CalendarsCommand::Get { name } => {
            let calendar: Calendar = session.api()?.get(&["calendars", &name], &()).await?;
            session.output.record(&calendar, GET)?;
        }
        CalendarsCommand::Delete { name } => {
            session.api()?.delete(&["calendars", &name], &()).await?;
            print_notice("deleted");
        }
        CalendarsCommand::Import(args) => import(args, session).await?,
    }
    Ok(exit::OK)
}

async fn import(args: ImportArgs, session: &Session) -> Result<(), ExitError> {
    let spec = spec(&args, &text(&args.file)?)?;
    if args.dry_run {
        return session.output.record(&spec, SPEC);
    }
    let calendar: Calendar = session.api()?.put(&["calendars", &args.name], &(), &spec).await?;
    session.output.record(&calendar, GET)
}

fn spec(args: &ImportArgs, text: &str) -> Result<CalendarSpec, ExitError> {
    let definition = from_icalendar(text)
        .map_err(|error| usage(anyhow!("{}: {}", file_name(&args.file), error.message())))?;
    let read: CalendarSpec = serde_json::from_value(with_name(definition, &args.name))
        .context("the calendar in the file is not supported")
        .map_err(failure)?;
    Ok(CalendarSpec { description: args.description.clone(), ..read })
}

fn with_name(definition: Value, name: &str) -> Value {
    let mut definition = definition;
    if let Value::Object(fields) = &mut definition {
        fields.insert("name".to_owned(), name.into());
    }
    definition
}

fn text(path: &Path) -> Result<String, ExitError> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().take(LARGEST + 1).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text))
    };
    match read {
        Ok(size) if size as u64 > LARGEST => {
            Err(usage(anyhow!("{}: the file is larger than {LARGEST} bytes", file_name(path))))
        }
        Ok(_) => Ok(text),
        Err(error) => {
            Err(usage(anyhow::Error::new(error).context(format!("{}: could not be read", file_name(path)))))
        }
    }
}

fn file_name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

fn field(definition: &Map<String, Value>, name: &str) -> Option<String> {
    definition.get(name).map(shown)
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(entries) => entries.iter().map(shown).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

fn kinds(definition: &Map<String, Value>) -> String {
    let counts = definition.iter().filter_map(|(name, value)| {
        let count = value.as_array()?.len();
        (count > 0).then(|| format!("{count} {name}"))
    });
    or_dash(Some(counts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use sched_runtime::exit::USAGE;
    use serde_json::json;

    use super::*;

    fn arguments(file: &str) -> ImportArgs {
        ImportArgs { file: file.into(), name: "holidays".into(), description: None, dry_run: true }
    }

    const FILE: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Christmas\r\n\
        DTSTART;VALUE=DATE:20261225\r\nDTEND;VALUE=DATE:20261227\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

    #[test]
    fn the_events_of_a_file_become_a_calendar() {
        let args = ImportArgs { description: Some("Days off.".into()), ..arguments("h.ics") };
        let spec = spec(&args, FILE).unwrap();
        assert_eq!(
            serde_json::to_value(spec).unwrap(),
            json!({"name": "holidays", "description": "Days off.", "dates": ["2026-12-25/2026-12-26"]})
        );
    }

    #[test]
    fn a_file_that_is_no_calendar_is_a_mistake_of_the_user() {
        for text in ["", "jobs: []", &FILE.replace("20261225", "20261325")] {
            let error = spec(&arguments("h.ics"), text).unwrap_err();
            assert_eq!(error.code(), USAGE, "{}", error.describe());
            assert!(error.describe().starts_with("h.ics: "), "{}", error.describe());
        }
        let error = text(Path::new("no/such.ics")).unwrap_err();
        assert_eq!(error.code(), USAGE);
        assert!(error.describe().starts_with("no/such.ics: could not be read"), "{}", error.describe());
    }

    #[test]
    fn a_definition_fits_into_cells() {
        let definition = json!({"timezone": "UTC", "weekly": ["SAT", {"days": ["MON"]}], "except": [], "dates": ["2026-12-24"]});
        let Value::Object(definition) = definition else { panic!() };
        assert_eq!(kinds(&definition), "1 dates, 2 weekly");
        assert_eq!(field(&definition, "weekly").unwrap(), r#"SAT, {"days":["MON"]}"#);
        assert_eq!(field(&definition, "rules"), None);
        assert_eq!(kinds(&Map::new()), "-");
    }
}
