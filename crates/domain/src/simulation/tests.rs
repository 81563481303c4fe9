//! Cases that can be computed by hand.

mod advice;
mod load;
mod overlaps;

use std::time::Duration;

use serde_json::json;

use super::super::job::OverlapPolicy;
use super::*;
use sched_timetable::{JobType, Schedule, ScheduleSource};

const OPTIONS: Options = Options { peaks: 10, most_starts: MOST_STARTS };

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn window(from: &str, to: &str) -> Window {
    Window::new(at(from), at(to)).unwrap()
}

fn day() -> Window {
    window("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z")
}

fn cron_timing<'a>(expression: &str, timezone: &str) -> Timing<'a> {
    let schedule = Schedule::parse(&ScheduleSource {
        job_type: JobType::Cron,
        config: &json!({ "expression": expression }),
        timezone,
        dst_gap: None,
        dst_overlap: None,
        created_at: DateTime::UNIX_EPOCH,
        hash_key: "",
    })
    .unwrap();
    Timing::new(move |after| schedule.next_after(after))
}

/// Counted from the epoch.
fn every_timing<'a>(seconds: i64) -> Timing<'a> {
    Timing::new(move |after| {
        let steps = after.timestamp().div_euclid(seconds) + 1;
        Ok(DateTime::from_timestamp(steps * seconds, 0))
    })
}

fn job<'a>(name: &'a str, timing: Timing<'a>) -> Simulated<'a> {
    Simulated {
        name,
        timing,
        jitter_seconds: 0,
        duration: None,
        max_instances: 1,
        overlap_policy: OverlapPolicy::Skip,
        spread: None,
    }
}

fn cron<'a>(name: &'a str, expression: &str) -> Simulated<'a> {
    let spread = spread_expression(expression, name)
        .map(|spread| Spread { timing: cron_timing(&spread.resolved, "UTC"), expression: spread.expression });
    Simulated { spread, ..job(name, cron_timing(expression, "UTC")) }
}

fn every(name: &str, seconds: i64, takes: u64) -> Simulated<'_> {
    Simulated { duration: Some(Duration::from_secs(takes)), ..job(name, every_timing(seconds)) }
}

fn run(jobs: &[Simulated<'_>], window: Window) -> Report {
    simulate(jobs, window, OPTIONS).unwrap()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("job-{number:02}")).collect()
}
