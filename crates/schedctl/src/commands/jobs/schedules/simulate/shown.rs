//! The printed simulation, for JSON, YAML and tables. Instants are UTC. Pure.

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::simulation::{Change, Hour, JobReport, Moment, Peak, Report, Suggestion};
use serde::Serialize;
use serde_json::Value;

use super::jobs::Chosen;

/// Above two weeks, minutes are not listed.
const MOST_MINUTES: usize = 14 * 24 * 60;

#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) from: DateTime<Utc>,
    pub(super) to: DateTime<Utc>,
    /// Without manual and disabled jobs.
    pub(super) jobs: usize,
    pub(super) manual_jobs: usize,
    pub(super) disabled_jobs: usize,
    pub(super) starts: u64,
    /// Absent above the limit.
    pub(super) starts_per_minute: Option<Vec<Starts>>,
    pub(super) hours: Vec<Stretch>,
    pub(super) peaks: Vec<Herd>,
    pub(super) busiest_second: Option<Starts>,
    pub(super) starts_per_job: Vec<Job>,
    pub(super) overlaps: Overlaps,
    pub(super) suggestions: Vec<Advice>,
    /// Now, and with all suggestions applied.
    pub(super) peak: Option<Starts>,
    pub(super) predicted_peak: Option<Starts>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Starts {
    pub(super) at: DateTime<Utc>,
    pub(super) starts: u32,
}

/// An hour, or in a table a day.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Stretch {
    pub(super) at: DateTime<Utc>,
    pub(super) starts: u64,
    pub(super) busiest_minute: Option<Starts>,
    pub(super) most_running: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Herd {
    pub(super) minute: DateTime<Utc>,
    pub(super) starts: u64,
    pub(super) most_in_a_second: u32,
    pub(super) jobs: Vec<Member>,
}

#[derive(Debug, Serialize)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) starts: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) starts: u64,
    pub(super) expected_duration_seconds: Option<u64>,
    pub(super) busy_seconds: i64,
    pub(super) most_running: u32,
    pub(super) overlapping: u64,
    pub(super) skipped: u64,
    pub(super) queued: u64,
    pub(super) cancelled: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Overlaps {
    /// Slots that the workers need in total.
    pub(super) most_running: u32,
    pub(super) since: Option<DateTime<Utc>>,
    pub(super) busy_seconds: i64,
    pub(super) mean_running: f64,
    /// These count as zero.
    pub(super) jobs_of_unknown_duration: Vec<String>,
    pub(super) starts_of_unknown_duration: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Advice {
    pub(super) job: String,
    pub(super) field: &'static str,
    pub(super) value: Value,
    /// Average number of starts in the minutes of its starts, including its own.
    pub(super) company_before: f64,
    pub(super) company_after: f64,
}

impl Shown {
    pub(super) fn new(report: &Report, chosen: &Chosen<'_>) -> Self {
        let minutes: Vec<Starts> =
            report.minutes.minutes().take(MOST_MINUTES + 1).map(Starts::from).collect();
        let mut jobs: Vec<Job> = report.jobs.iter().map(Job::from).collect();
        jobs.sort_by(|left, right| right.starts.cmp(&left.starts).then_with(|| left.name.cmp(&right.name)));
        Self {
            from: report.window.from(),
            to: report.window.to(),
            jobs: chosen.jobs.len(),
            manual_jobs: chosen.manual,
            disabled_jobs: chosen.disabled,
            starts: report.starts,
            starts_per_minute: (minutes.len() <= MOST_MINUTES).then_some(minutes),
            hours: report.hours.iter().map(Stretch::from).collect(),
            peaks: report.peaks.iter().map(Herd::from).collect(),
            busiest_second: report.busiest_second.map(Starts::from),
            overlaps: Overlaps::new(report, &jobs),
            starts_per_job: jobs,
            suggestions: report.suggestions.iter().map(Advice::from).collect(),
            peak: report.minutes.busiest().map(Starts::from),
            predicted_peak: report.spread_peak.map(Starts::from),
        }
    }
}

impl From<Moment> for Starts {
    fn from(moment: Moment) -> Self {
        Self { at: moment.at, starts: moment.count }
    }
}

impl From<&Hour> for Stretch {
    fn from(hour: &Hour) -> Self {
        Self {
            at: hour.at,
            starts: hour.starts,
            busiest_minute: hour.busiest.map(Starts::from),
            most_running: hour.most_running,
        }
    }
}

impl From<&Peak> for Herd {
    fn from(peak: &Peak) -> Self {
        let member = |(name, starts): &(String, u32)| Member { name: name.clone(), starts: *starts };
        Self {
            minute: peak.minute,
            starts: peak.starts,
            most_in_a_second: peak.in_a_second,
            jobs: peak.jobs.iter().map(member).collect(),
        }
    }
}

impl From<&JobReport> for Job {
    fn from(job: &JobReport) -> Self {
        Self {
            name: job.name.clone(),
            starts: job.starts,
            expected_duration_seconds: job.duration.map(|duration| duration.as_secs()),
            busy_seconds: job.busy.num_seconds(),
            most_running: job.most_running,
            overlapping: job.overlapping,
            skipped: job.skipped,
            queued: job.queued,
            cancelled: job.cancelled,
        }
    }
}

impl From<&Suggestion> for Advice {
    fn from(suggestion: &Suggestion) -> Self {
        let (field, value) = match &suggestion.change {
            Change::Expression(expression) => ("schedule_config.expression", expression.as_str().into()),
            Change::Jitter(seconds) => ("jitter_seconds", (*seconds).into()),
        };
        Self {
            job: suggestion.job.clone(),
            field,
            value,
            company_before: rounded(suggestion.company_before),
            company_after: rounded(suggestion.company_after),
        }
    }
}

impl Overlaps {
    fn new(report: &Report, jobs: &[Job]) -> Self {
        let unknown = || jobs.iter().filter(|job| job.expected_duration_seconds.is_none());
        let length = report.window.to() - report.window.from();
        Self {
            most_running: report.most_running.map_or(0, |most| most.count),
            since: report.most_running.map(|most| most.at),
            busy_seconds: report.busy.num_seconds(),
            mean_running: rounded(ratio(report.busy, length)),
            jobs_of_unknown_duration: unknown().map(|job| job.name.clone()).collect(),
            starts_of_unknown_duration: unknown().map(|job| job.starts).sum(),
        }
    }
}

fn ratio(part: TimeDelta, whole: TimeDelta) -> f64 {
    part.as_seconds_f64() / whole.as_seconds_f64()
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
