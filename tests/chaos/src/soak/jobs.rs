//! The jobs of a soak: from minutely to yearly, with different offsets, so that the load is even.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{bail, ensure};
use serde_json::{Value, json};
use test_support::http;

/// Jobs per request: even a debug build responds in time.
const BATCH: usize = 25;
/// Attempts of a request without a response; it is idempotent.
const TRIES: usize = 5;
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Seconds(usize),
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

const SHARES: [(usize, Period); 8] = [
    (5, Period::Seconds(60)),
    (10, Period::Seconds(300)),
    (10, Period::Seconds(900)),
    (25, Period::Hourly),
    (25, Period::Daily),
    (15, Period::Weekly),
    (7, Period::Monthly),
    (3, Period::Yearly),
];

pub(super) async fn populate(
    api: SocketAddr,
    program: &Path,
    effects: &Path,
    count: usize,
) -> anyhow::Result<()> {
    let function = json!({"name": "soak", "handler_type": "process", "handler_config": {"program": program, "args": [effects, "20", "well"]}});
    let older = json!({"name": super::history::JOB, "function": "soak", "job_type": "manual", "overlap_policy": "allow"});
    let manifest = json!({"task_functions": [function], "jobs": [older]});
    apply(api, &manifest).await?;
    let numbers: Vec<usize> = (0..count).collect();
    for batch in numbers.chunks(BATCH) {
        let jobs: Vec<Value> = batch.iter().map(|number| job(*number)).collect();
        apply(api, &json!({"jobs": jobs})).await?;
    }
    Ok(())
}

async fn apply(api: SocketAddr, manifest: &Value) -> anyhow::Result<()> {
    for attempt in 1..=TRIES {
        match http::post(api, "/api/v1/apply", manifest).await {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => {
                // A request that timed out may still be in progress.
                ensure!(answer.status == 503, "the jobs are rejected: {}", answer.body);
                println!("the jobs are applied again, attempt {attempt} of {TRIES}: {}", answer.body);
            }
            Err(error) => println!("the jobs are applied again, attempt {attempt} of {TRIES}: {error}"),
        }
    }
    bail!("the jobs cannot be applied")
}

pub(super) fn rate(count: usize) -> f64 {
    let of = |(share, period): &(usize, Period)| {
        let seconds = match period {
            Period::Seconds(seconds) => *seconds as f64,
            Period::Hourly => 3600.0,
            Period::Daily => 86_400.0,
            Period::Weekly => 7.0 * 86_400.0,
            Period::Monthly => 30.0 * 86_400.0,
            Period::Yearly => 365.0 * 86_400.0,
        };
        *share as f64 / 100.0 / seconds
    };
    count as f64 * SHARES.iter().map(of).sum::<f64>()
}

fn period(number: usize) -> Period {
    let mut rest = number % 100;
    for (share, period) in SHARES {
        if rest < share {
            return period;
        }
        rest -= share;
    }
    Period::Yearly
}

fn job(number: usize) -> Value {
    let spread = spread(number);
    let (minute, hour) = (spread % 60, spread / 60 % 24);
    let zone = if number.is_multiple_of(3) { "Europe/Berlin" } else { "UTC" };
    let schedule = match period(number) {
        Period::Seconds(seconds) if number.is_multiple_of(2) => {
            let at = spread % seconds;
            let anchor = format!("2026-01-01T00:{:02}:{:02}Z", at / 60, at % 60);
            json!({"job_type": "interval", "schedule_config": {"seconds": seconds, "anchor": anchor}})
        }
        Period::Seconds(seconds) => {
            let (second, minutes) = (spread % 60, seconds / 60);
            let every = match minutes {
                1 => "*".to_owned(),
                _ => format!("{}-59/{minutes}", spread / 60 % minutes),
            };
            json!({"job_type": "cron", "schedule_config": {"expression": format!("{second} {every} * * * *"), "seconds": true}})
        }
        Period::Hourly => cron(format!("{minute} * * * *")),
        Period::Daily => cron(format!("{minute} {hour} * * *")),
        Period::Weekly => cron(format!("{minute} {hour} * * {}", choose(&DAYS, spread))),
        Period::Monthly => cron(format!("{minute} {hour} {} * *", 1 + spread % 28)),
        Period::Yearly => cron(format!("{minute} {hour} {} {} *", 1 + spread % 28, choose(&MONTHS, spread))),
    };
    let mut job = json!({
        "name": format!("soak-{number}"), "function": "soak", "timezone": zone, "misfire_policy": "fire_once",
        "retry_policy": {"max_attempts": 8, "backoff_seconds": 1, "backoff_type": "fixed", "max_backoff_seconds": 5, "jitter_percent": 10},
    });
    if let (Some(job), Some(schedule)) = (job.as_object_mut(), schedule.as_object()) {
        job.extend(schedule.clone());
    }
    job
}

/// An offset far from those of the neighbouring numbers.
fn spread(number: usize) -> usize {
    let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from(mixed).unwrap_or(number)
}

fn cron(expression: String) -> Value {
    json!({"job_type": "cron", "schedule_config": {"expression": expression, "seconds": false}})
}

fn choose(words: &'static [&'static str], spread: usize) -> &'static str {
    words.get(spread % words.len()).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hundred_jobs_have_every_period_and_distinct_names() {
        assert_eq!(SHARES.iter().map(|(share, _)| share).sum::<usize>(), 100);
        for (share, wanted) in SHARES {
            assert_eq!((0..100).filter(|number| period(*number) == wanted).count(), share, "{wanted:?}");
        }
        let mut names: Vec<String> = (0..100).map(|number| job(number)["name"].to_string()).collect();
        names.dedup();
        assert_eq!(names.len(), 100);
    }

    #[test]
    fn twenty_thousand_jobs_fire_about_thirty_times_a_second_at_distinct_offsets() {
        assert!((25.0..35.0).contains(&rate(20_000)), "{}", rate(20_000));
        let mut seconds: Vec<String> = (0..20_000)
            .filter(|number| period(*number) == Period::Seconds(60))
            .map(|number| job(number)["schedule_config"].to_string())
            .collect();
        seconds.sort();
        seconds.dedup();
        assert!(seconds.len() >= 100, "a minute has {} different fire times", seconds.len());
    }
}
