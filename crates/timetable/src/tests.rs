//! Tests of schedules through their public interface, and slow models.

mod config;
mod day_match;
mod daylight_saving;
mod decisions;
mod dialect;
mod hashed;
mod plans;
mod preview;
mod properties;
mod reference;
mod seconds;
mod suppressed;
mod timetables;
mod transitions;
mod warnings;
mod words;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value;

use super::{
    CronSchedule, CronSpec, DstGap, DstOverlap, JobType, Schedule, ScheduleError, ScheduleSource, Zone,
};

fn utc(text: &str) -> DateTime<Utc> {
    text.parse().unwrap_or_else(|error| panic!("`{text}` is not a instant: {error}"))
}

fn naive(text: &str) -> NaiveDateTime {
    let with_seconds = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S");
    with_seconds
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M"))
        .unwrap_or_else(|error| panic!("`{text}` is not a local time: {error}"))
}

fn spec(text: &str) -> CronSpec {
    CronSpec::parse(text).unwrap_or_else(|error| panic!("`{text}` is refused: {error}"))
}

fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap_or_else(|error| panic!("`{name}` is refused: {error}"))
}

fn cron(text: &str, zone_name: &str) -> Schedule {
    cron_with(text, zone_name, None, None)
}

fn cron_with(text: &str, zone_name: &str, gap: Option<DstGap>, overlap: Option<DstOverlap>) -> Schedule {
    Schedule::Cron(CronSchedule::new(spec(text), zone(zone_name), gap, overlap))
}

fn parse(job_type: JobType, config: &Value, timezone: &str) -> Result<Schedule, ScheduleError> {
    Schedule::parse(&ScheduleSource {
        job_type,
        config,
        timezone,
        dst_gap: None,
        dst_overlap: None,
        created_at: utc("2026-01-05T08:30:00Z"),
        hash_key: "",
    })
}

fn fires(schedule: &Schedule, after: &str, count: usize) -> Vec<DateTime<Utc>> {
    let next = |at: &DateTime<Utc>| schedule.next_after(*at).expect("the engine works");
    std::iter::successors(next(&utc(after)), next).take(count).collect()
}

fn assert_fires(schedule: &Schedule, after: &str, expected: &[&str]) {
    let expected: Vec<DateTime<Utc>> = expected.iter().map(|text| utc(text)).collect();
    assert_eq!(fires(schedule, after, expected.len()), expected, "{schedule:?} after {after}");
}
