//! `jobs validate`: checks files without an API.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{ArgAction, Args};
use sched_model::domain::timetable::Zone;
use sched_runtime::exit;
use serde::Serialize;

use crate::commands::Session;
use crate::failure::{CommandResult, usage};
use crate::manifest::{ReadFiles, offline};
use crate::output::{Column, join_list, or_dash, print_notice};

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// YAML or JSON file, `-` for standard input; may be repeated
    #[arg(short, long = "file", value_name = "FILE", required = true, action = ArgAction::Append)]
    file: Vec<PathBuf>,
    /// IANA time zone of jobs without one
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
}

/// The contents of valid files, and the names that only the API can check.
#[derive(Debug, Serialize)]
struct Valid {
    jobs: usize,
    task_functions: usize,
    calendars: usize,
    undefined_task_functions: Vec<String>,
    undefined_calendars: Vec<String>,
    undefined_jobs: Vec<String>,
}

const VALID: &[Column<Valid>] = &[
    Column::new("Jobs", |valid| valid.jobs.to_string()),
    Column::new("Task functions", |valid| valid.task_functions.to_string()),
    Column::new("Calendars", |valid| valid.calendars.to_string()),
    Column::new("Task functions not in the files", |valid| names(&valid.undefined_task_functions)),
    Column::new("Calendars not in the files", |valid| names(&valid.undefined_calendars)),
    Column::new("Jobs not in the files", |valid| names(&valid.undefined_jobs)),
];

fn names(names: &[String]) -> String {
    or_dash(Some(join_list(names)).filter(|names| !names.is_empty()))
}

pub(super) fn run(args: &ValidateArgs, session: &Session) -> CommandResult {
    Zone::parse(&args.timezone).map_err(|error| usage(anyhow!("--timezone: {}", error.message())))?;
    let read = ReadFiles::read(&args.file);
    let mistakes = offline::mistakes(&read.files, &args.timezone);
    if !read.is_sound() || !mistakes.is_empty() {
        return Err(read.invalid(mistakes).into());
    }
    let undefined = offline::undefined(&read.files);
    let list = |names: std::collections::BTreeSet<String>| names.into_iter().collect::<Vec<_>>();
    let valid = Valid {
        jobs: read.files.jobs().count(),
        task_functions: read.files.functions().count(),
        calendars: read.files.calendars().count(),
        undefined_task_functions: list(undefined.functions),
        undefined_calendars: list(undefined.calendars),
        undefined_jobs: list(undefined.jobs),
    };
    let has_undefined = [&valid.undefined_task_functions, &valid.undefined_calendars, &valid.undefined_jobs]
        .iter()
        .any(|names| !names.is_empty());
    session.output.record(&valid, VALID)?;
    if has_undefined {
        print_notice("names that are not in the files are checked by `schedctl jobs apply --dry-run`");
    }
    Ok(exit::OK)
}
