//! Previews: from a request or a stored job to its fire times. Pure.
//!
//! A [`Question`] collects all inputs first, because the computation may be long and runs outside
//! the serving threads.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use sched_model::definitions::calendars::CalendarRecord;
use sched_model::domain::FieldError as DomainError;
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::{JobSettings, MAX_CALENDARS};
use sched_model::domain::timetable::{
    Calendar, CalendarRoll, DstGap, DstOverlap, JobType, Preview, ScheduleSource, TimetableSource, hash_key,
};
use sched_model::jobs::Job;
use sched_wire::{self as wire, CalendarChoice, DEFAULT_PREVIEW, MAX_PREVIEW, PreviewRequest};
use serde_json::Value;

use super::{IntoDomain, IntoWire, calendar};
use crate::error::field_error::{FieldError, read};

/// The requested fire times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The fire times follow this instant.
    pub(crate) after: DateTime<Utc>,
    /// The highest number of fire times.
    pub(crate) count: usize,
}

/// The values of fields that a request omits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults<'a> {
    pub(crate) timezone: &'a str,
    pub(crate) after: DateTime<Utc>,
}

#[derive(Debug)]
pub(crate) struct Question {
    job_type: JobType,
    config: Value,
    timezone: String,
    dst_gap: Option<DstGap>,
    dst_overlap: Option<DstOverlap>,
    created_at: DateTime<Utc>,
    hash_key: String,
    start_at: Option<DateTime<Utc>>,
    end_at: Option<DateTime<Utc>>,
    calendars: Vec<(String, Value)>,
    roll: CalendarRoll,
    range: Range,
    pause: Option<Pause>,
}

/// A pause of the job; its fires before the end are skipped.
#[derive(Debug)]
struct Pause {
    /// `None` until a user resumes the job.
    until: Option<DateTime<Utc>>,
    reason: Option<String>,
}

/// Does not check the schedule; the computation does.
pub(crate) fn request(body: Value) -> Result<PreviewRequest, Vec<FieldError>> {
    let request: PreviewRequest = read(body, "").map_err(|mistake| vec![mistake])?;
    let mut mistakes = Vec::new();
    mistakes.extend(count(request.count).err().map(|message| FieldError::invalid("/count", message)));
    if request.calendars.len() > MAX_CALENDARS {
        let message = format!("has {}; at most {MAX_CALENDARS} are allowed", request.calendars.len());
        mistakes.push(FieldError::invalid("/calendars", message));
    }
    if mistakes.is_empty() { Ok(request) } else { Err(mistakes) }
}

pub(crate) fn count(requested: Option<usize>) -> Result<usize, String> {
    let count = requested.unwrap_or(DEFAULT_PREVIEW);
    if (1..=MAX_PREVIEW).contains(&count) {
        return Ok(count);
    }
    Err(format!("must be between 1 and {MAX_PREVIEW}, not {count}"))
}

pub(crate) fn named(request: &PreviewRequest) -> Vec<String> {
    let names = request.calendars.iter().filter_map(|choice| match choice {
        CalendarChoice::Named(name) => Some(name.clone()),
        CalendarChoice::Inline(_) => None,
    });
    names.collect()
}

impl Question {
    /// The question of a request, with the calendars that it names from `kept`.
    pub(crate) fn of_request(
        tenant: TenantId,
        request: PreviewRequest,
        kept: &[CalendarRecord],
        defaults: Defaults<'_>,
    ) -> Result<Self, Vec<FieldError>> {
        let (mut calendars, mut mistakes) = (Vec::new(), Vec::new());
        for (index, choice) in request.calendars.into_iter().enumerate() {
            let at = format!("/calendars/{index}");
            match choice {
                CalendarChoice::Inline(fields) => calendars.push((at, Value::Object(fields))),
                CalendarChoice::Named(name) => match kept.iter().find(|calendar| calendar.name == name) {
                    Some(calendar) => calendars.push((at, calendar.definition.clone())),
                    None => {
                        mistakes
                            .push(FieldError::invalid(at, format!("there is no calendar named {name:?}")));
                    }
                },
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let after = request.after.unwrap_or(defaults.after);
        Ok(Self {
            job_type: request.job_type.into_domain(),
            config: Value::Object(request.schedule_config),
            timezone: request.timezone.unwrap_or_else(|| defaults.timezone.to_owned()),
            dst_gap: request.dst_gap.map(IntoDomain::into_domain),
            dst_overlap: request.dst_overlap.map(IntoDomain::into_domain),
            created_at: after,
            hash_key: hash_key(tenant.0, request.job_name.as_deref().unwrap_or_default()),
            start_at: request.start_at,
            end_at: request.end_at,
            calendars,
            roll: request.calendar_roll.into_domain(),
            range: Range { after, count: request.count.unwrap_or(DEFAULT_PREVIEW) },
            pause: None,
        })
    }

    /// At most the fires that `max_runs` leaves. `kept` has the calendars that the job names.
    pub(crate) fn of_job(tenant: TenantId, job: Job, kept: Vec<CalendarRecord>, range: Range) -> Self {
        let count = fires_left(&job).map_or(range.count, |left| range.count.min(left));
        let JobSettings { name, job_type, schedule_config, timezone, dst_gap, dst_overlap, .. } =
            job.settings;
        Self {
            job_type,
            config: schedule_config,
            timezone,
            dst_gap,
            dst_overlap,
            created_at: job.state.created_at,
            hash_key: hash_key(tenant.0, &name),
            start_at: job.settings.start_at,
            end_at: job.settings.end_at,
            calendars: kept
                .into_iter()
                .map(|calendar| ("/calendars".to_owned(), calendar.definition))
                .collect(),
            roll: job.settings.calendar_roll,
            range: Range { count, ..range },
            pause: job
                .state
                .is_paused
                .then_some(Pause { until: job.state.paused_until, reason: job.state.pause_reason }),
        }
    }

    /// May take a good part of a second.
    pub(crate) fn answer(&self) -> Result<wire::Preview, FieldError> {
        let calendars: Result<Vec<Calendar>, FieldError> =
            self.calendars.iter().map(|(at, definition)| calendar::compile(definition, at)).collect();
        let calendars = calendars?;
        let of = |Range { after, count }| Preview::of(&self.source(&calendars), after, count);
        let mut answer = of(self.range).map(show).map_err(|error| {
            let error = DomainError { field: error.field().to_owned(), message: error.message().to_owned() };
            FieldError::of_field("", &error)
        })?;
        if let Some(pause) = &self.pause {
            pause.mark(&mut answer.fire_times);
            let just_before = |until: DateTime<Utc>| until.checked_sub_signed(TimeDelta::microseconds(1));
            let after = pause.until.and_then(just_before).map(|before| before.max(self.range.after));
            let first = after.and_then(|after| of(Range { after, count: 1 }).ok());
            let first = first.and_then(|found| found.fire_times.first().map(|fire| fire.utc));
            answer.warnings.insert(0, pause.warning(first));
        }
        Ok(answer)
    }

    fn source<'a>(&'a self, calendars: &'a [Calendar]) -> TimetableSource<'a> {
        TimetableSource {
            schedule: ScheduleSource {
                job_type: self.job_type,
                config: &self.config,
                timezone: &self.timezone,
                dst_gap: self.dst_gap,
                dst_overlap: self.dst_overlap,
                created_at: self.created_at,
                hash_key: &self.hash_key,
            },
            start_at: self.start_at,
            end_at: self.end_at,
            calendars,
            roll: self.roll,
        }
    }
}

impl Pause {
    fn mark(&self, fires: &mut [wire::FireTime]) {
        for fire in fires {
            fire.is_paused = self.until.is_none_or(|until| fire.utc < until);
        }
    }

    /// `first`: the first fire after the pause.
    fn warning(&self, first: Option<DateTime<Utc>>) -> String {
        let at = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        match (self.until, first) {
            (None, _) => {
                format!(
                    "paused: the job is paused until a user resumes it{reason}, and its fires are skipped"
                )
            }
            (Some(until), first) => format!(
                "paused: the job is paused until {}{reason}, and its fires before that are skipped; {}",
                at(until),
                first.map_or_else(
                    || "none follows".to_owned(),
                    |first| format!("the first fire after the pause is {}", at(first))
                )
            ),
        }
    }
}

/// `None` without a limit.
fn fires_left(job: &Job) -> Option<usize> {
    let left = job.settings.max_runs?.saturating_sub(job.state.fired_count);
    Some(usize::try_from(left).unwrap_or(0))
}

fn show(preview: Preview) -> wire::Preview {
    let fire_times = preview.fire_times.into_iter().map(|fire| wire::FireTime {
        utc: fire.utc,
        local: fire.local,
        note: fire.note.map(IntoWire::into_wire),
        moved_from: fire.moved_from,
        is_paused: false,
    });
    wire::Preview {
        fire_times: fire_times.collect(),
        description: preview.description,
        warnings: preview.warnings,
    }
}
