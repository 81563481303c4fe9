//! Converts the jobs of files for the simulation. All jobs are validated first, by the rules of the
//! API. Pure.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::ids::DEFAULT_TENANT;
use sched_model::domain::job::JobSettings;
use sched_model::domain::simulation::{Simulated, Spread, Timing, Window, spread_expression};
use sched_model::domain::timetable::{
    Calendar, CronOptions, CronSpec, DstGap, DstOverlap, JobType, Schedule, ScheduleError, Timetable,
    hash_key,
};
use sched_runtime::exit::ExitError;
use sched_wire::{Problem, ProblemError};
use serde_json::{Map, Value};

use crate::failure::{failure, usage};
use crate::manifest::Files;
use crate::manifest::offline::{calendars, settings};

#[derive(Debug, Default)]
pub(super) struct Chosen<'a> {
    pub(super) jobs: Vec<Simulated<'a>>,
    pub(super) manual: usize,
    pub(super) disabled: usize,
}

pub(super) fn choose<'a>(files: &'a Files, timezone: &str, window: Window) -> Result<Chosen<'a>, ExitError> {
    let mut chosen = Chosen::default();
    let mut mistakes = Vec::new();
    let reading = Reading { calendars: calendars(files, &mut mistakes), window };
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
            match reading.simulated(&spec.name, &settings) {
                Ok(job) => chosen.jobs.push(job),
                Err(refusal) => mistakes.push(mistake(index, &refusal.field, refusal.message)),
            }
        }
    }
    if mistakes.is_empty() { Ok(chosen) } else { Err(refuse(files, mistakes)) }
}

struct Reading<'a> {
    calendars: HashMap<&'a str, Calendar>,
    /// Intervals without an anchor count from its start.
    window: Window,
}

impl Reading<'_> {
    fn simulated<'n>(&self, name: &'n str, settings: &JobSettings) -> Result<Simulated<'n>, Refusal> {
        let seconds = settings.expected_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Simulated {
            name,
            timing: self.timing(settings)?,
            jitter_seconds: u32::try_from(settings.jitter_seconds).unwrap_or(0),
            duration: seconds.map(Duration::from_secs),
            max_instances: u32::try_from(settings.max_instances).unwrap_or(1),
            overlap_policy: settings.overlap_policy,
            spread: self.spread(name, settings)?,
        })
    }

    /// `H` is resolved as in the default tenant.
    fn timetable(&self, settings: &JobSettings) -> Result<Timetable, Refusal> {
        let named = settings.calendars.iter().enumerate().map(|(index, name)| {
            self.calendars.get(name.as_str()).cloned().ok_or_else(|| Refusal {
                field: format!("calendars.{index}"),
                message: format!(
                    "{name:?} is not in the files; a simulation reads no database, so add its file"
                ),
            })
        });
        let named: Vec<Calendar> = named.collect::<Result<_, _>>()?;
        Ok(settings.timetable(DEFAULT_TENANT, self.window.from(), &named)?)
    }

    fn timing<'n>(&self, settings: &JobSettings) -> Result<Timing<'n>, Refusal> {
        let timetable = self.timetable(settings)?;
        let last = match settings.max_runs {
            Some(most) => self.last_of(&timetable, most)?,
            None => None,
        };
        Ok(Timing::new(move |after| {
            Ok(timetable.next_after(after)?.filter(|at| last.is_none_or(|last| *at <= last)))
        }))
    }

    /// `Some` if the window has more than `most` fires: the job ends with that one.
    fn last_of(&self, timetable: &Timetable, most: i64) -> Result<Option<DateTime<Utc>>, Refusal> {
        let mut at = self.window.from() - TimeDelta::microseconds(1);
        for _ in 0..most {
            match timetable.next_after(at)?.filter(|next| *next < self.window.to()) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// `None` unless it is a cron expression with such a form.
    fn spread<'n>(&self, name: &str, settings: &JobSettings) -> Result<Option<Spread<'n>>, Refusal> {
        let timetable = self.timetable(settings)?;
        let Schedule::Cron(cron) = timetable.schedule() else { return Ok(None) };
        let key = hash_key(DEFAULT_TENANT.0, name);
        let expression = replaceable_expression(&settings.schedule_config, cron.spec(), &key);
        let Some(spread) = expression.and_then(|expression| spread_expression(expression, &key)) else {
            return Ok(None);
        };
        let mut moved = settings.clone();
        if cron.spec().wildcard_time() {
            // `H/n` follows elapsed time as `*/n` does, but its resolved form has no leading star.
            moved.dst_gap.get_or_insert(DstGap::Skip);
            moved.dst_overlap.get_or_insert(DstOverlap::Both);
        }
        let mut config = Map::new();
        config.insert("expression".to_owned(), spread.resolved.into());
        config.insert("day_match".to_owned(), cron.spec().day_match().as_str().into());
        config.extend(settings.schedule_config.get("seconds").map(|set| ("seconds".to_owned(), set.clone())));
        moved.schedule_config = Value::Object(config);
        Ok(Some(Spread { expression: spread.expression, timing: self.timing(&moved)? }))
    }
}

/// As written, except for nicknames and the form with a key per field, which have no expression.
/// `None` if an expression alone could not replace these.
fn replaceable_expression<'a>(config: &'a Value, spec: &'a CronSpec, key: &str) -> Option<&'a str> {
    let written = config.get("expression").and_then(Value::as_str);
    if let Some(written) = written.filter(|text| !text.trim_start().starts_with('@')) {
        return Some(written);
    }
    let seconds = config.get("seconds") == Some(&Value::Bool(true));
    let alone = CronOptions { hash_key: key, seconds, day_match: None };
    let is_equal = CronSpec::parse_with(spec.canonical(), &alone).is_ok_and(|alone| alone == *spec);
    is_equal.then(|| spec.canonical())
}

struct Refusal {
    field: String,
    message: String,
}

impl From<ScheduleError> for Refusal {
    fn from(error: ScheduleError) -> Self {
        Self { field: error.field().to_owned(), message: error.message().to_owned() }
    }
}

fn mistake(index: usize, field: &str, message: String) -> ProblemError {
    ProblemError { pointer: format!("/jobs/{index}/{}", field.replace('.', "/")), message }
}

fn refuse(files: &Files, mistakes: Vec<ProblemError>) -> ExitError {
    let mut problem = Problem::new(422, "", "", "");
    problem.errors = mistakes;
    let explained = files.explain(&problem).to_string();
    let places = explained.split_once('\n').map_or(explained.as_str(), |(_, places)| places);
    usage(anyhow!("the jobs cannot be simulated:\n{places}"))
}
