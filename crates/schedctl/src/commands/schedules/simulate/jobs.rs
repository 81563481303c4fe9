//! From the jobs of the files to what the model simulates.
//!
//! Jobs are judged by the rules the API judges by, all of them before anything is simulated, and mistakes are told at their
//! places in the files. Pure; the files have been read.

use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, Utc};
use sched_model::domain::job::JobSettings;
use sched_model::domain::schedule::{DstGap, DstOverlap, JobType, Schedule, ScheduleError};
use sched_model::domain::simulation::{Simulated, Spread, Timing, spread_expression};
use sched_runtime::exit::ExitError;
use sched_wire::{JobSpec, Problem, ProblemError};
use serde_json::{Map, Value, json};

use crate::failure::{failure, usage};
use crate::manifest::Files;

/// The jobs to simulate, and how many are left out.
#[derive(Debug, Default)]
pub(super) struct Chosen<'a> {
    pub(super) jobs: Vec<Simulated<'a>>,
    /// Without a schedule.
    pub(super) manual: usize,
    /// With one that does not fire.
    pub(super) disabled: usize,
}

/// The jobs of the files that fire by themselves. Intervals without an anchor are counted from `anchor`, as if the jobs were
/// created then.
pub(super) fn choose<'a>(
    files: &'a Files,
    timezone: &str,
    anchor: DateTime<Utc>,
) -> Result<Chosen<'a>, ExitError> {
    let mut chosen = Chosen::default();
    let mut mistakes = Vec::new();
    for (index, spec) in files.jobs().enumerate() {
        let settings = settings(spec, timezone).map_err(failure)?;
        let wrong = settings.check();
        if !wrong.is_empty() {
            mistakes.extend(wrong.into_iter().map(|error| mistake(index, &error.field, error.message)));
        } else if !settings.is_enabled {
            chosen.disabled += 1;
        } else if settings.job_type == JobType::Manual {
            chosen.manual += 1;
        } else {
            match simulated(&spec.name, &settings, anchor) {
                Ok(job) => chosen.jobs.push(job),
                Err(error) => mistakes.push(mistake(index, error.field(), error.message().to_owned())),
            }
        }
    }
    if mistakes.is_empty() { Ok(chosen) } else { Err(refuse(files, mistakes)) }
}

/// The settings as the API would complete them: the words and fields of a file are those of the model.
fn settings(spec: &JobSpec, timezone: &str) -> Result<JobSettings, serde_json::Error> {
    let mut value = serde_json::to_value(spec)?;
    if let Some(fields) = value.as_object_mut() {
        for (field, absent) in [
            ("description", json!("")),
            ("project", json!(spec.project_or_default())),
            ("timezone", json!(timezone)),
        ] {
            fields.entry(field).or_insert(absent);
        }
    }
    serde_json::from_value(value)
}

fn simulated<'a>(
    name: &'a str,
    settings: &JobSettings,
    anchor: DateTime<Utc>,
) -> Result<Simulated<'a>, ScheduleError> {
    let seconds = settings.expected_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Ok(Simulated {
        name,
        timing: timing(settings, anchor)?,
        jitter_seconds: u32::try_from(settings.jitter_seconds).unwrap_or(0),
        duration: seconds.map(Duration::from_secs),
        max_instances: u32::try_from(settings.max_instances).unwrap_or(1),
        overlap_policy: settings.overlap_policy,
        spread: spread(name, settings, anchor)?,
    })
}

/// What a job with these settings follows; the one place that knows how it is read.
fn schedule(settings: &JobSettings, anchor: DateTime<Utc>) -> Result<Schedule, ScheduleError> {
    settings.schedule(anchor)
}

fn timing<'a>(settings: &JobSettings, anchor: DateTime<Utc>) -> Result<Timing<'a>, ScheduleError> {
    let schedule = schedule(settings, anchor)?;
    Ok(Timing::new(move |after| schedule.next_after(after)))
}

/// The same schedule at minutes of its own, if it is a cron expression that has such a form.
fn spread<'a>(
    name: &str,
    settings: &JobSettings,
    anchor: DateTime<Utc>,
) -> Result<Option<Spread<'a>>, ScheduleError> {
    let Schedule::Cron(cron) = schedule(settings, anchor)? else { return Ok(None) };
    // As the user wrote it, unless that has no fields: nicknames, and the form with a key for each field.
    let written = settings.schedule_config.get("expression").and_then(Value::as_str);
    let written = written.filter(|text| !text.trim_start().starts_with('@'));
    let expression = written.unwrap_or_else(|| cron.spec().canonical());
    let Some(spread) = spread_expression(expression, name) else { return Ok(None) };
    let mut moved = settings.clone();
    if cron.spec().wildcard_time() {
        // `H/n` follows elapsed time as `*/n` does; what it is resolved to does not begin with a star.
        moved.dst_gap.get_or_insert(DstGap::Skip);
        moved.dst_overlap.get_or_insert(DstOverlap::Both);
    }
    let mut config = Map::new();
    config.insert("expression".to_owned(), spread.resolved.into());
    config.extend(settings.schedule_config.get("seconds").map(|set| ("seconds".to_owned(), set.clone())));
    moved.schedule_config = Value::Object(config);
    Ok(Some(Spread { expression: spread.expression, timing: timing(&moved, anchor)? }))
}

/// A mistake of job `index`; fields are paths with dots.
fn mistake(index: usize, field: &str, message: String) -> ProblemError {
    ProblemError { pointer: format!("/jobs/{index}/{}", field.replace('.', "/")), message }
}

/// Tells mistakes at their places, in the words of this command.
fn refuse(files: &Files, mistakes: Vec<ProblemError>) -> ExitError {
    let mut problem = Problem::new(422, "", "", "");
    problem.errors = mistakes;
    let explained = files.explain(&problem).to_string();
    // The first line speaks of applying; a line for each mistake follows.
    let places = explained.split_once('\n').map_or(explained.as_str(), |(_, places)| places);
    usage(anyhow!("the jobs cannot be simulated:\n{places}"))
}
