//! The jobs of a run: of every kind, with every policy. All of them log their work.
//!
//! The jobs of the tables `steady`, `cron` and so on are never changed, for rules that need
//! constant settings. Pure.

use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use system_tests::Effects;

use crate::plan::{CHANGED, MANUAL_JOBS};

/// The functions: name, duration in milliseconds, result.
const FUNCTIONS: [(&str, u32, &str); 7] = [
    ("quick", 60, "well"),
    ("busy", 400, "well"),
    ("long", 2500, "well"),
    ("flaky", 60, "flaky"),
    ("broken", 30, "badly"),
    // A client pauses it at times.
    ("switched", 60, "well"),
    ("hangs", 20_000, "well"),
];

const CRONS: [&str; 6] =
    ["*/3 * * * * *", "*/7 * * * * *", "5,10,40 * * * * *", "*/2 * * * *", "0-30/4 * * * * *", "* * * * *"];
/// Day fields with their `day_match`. The run proves their next fire.
const DAYS: [(&str, Option<&str>); 7] = [
    ("13 * FRI", None),
    ("*/2 * FRI", None),
    ("*,5 * MON", None),
    ("L * */2", None),
    ("1-7 * MON", Some("both")),
    ("*/10 * FRI", Some("either")),
    ("13 * FRI", Some("both")),
];
const POLICIES: [(&str, u32); 4] = [("skip", 1), ("queue", 1), ("allow", 3), ("skip", 2)];
const MISFIRES: [&str; 3] = ["fire_once", "skip", "fire_all"];

/// Windows of the calendar, each of four seconds out of fifteen: twenty minutes in total.
const BREAKS: i64 = 80;
const BREAK: (i64, i64) = (4, 15);

/// All initial resources, as the body of an `apply`.
pub(crate) fn manifest(program: &Path, effects: &Path, now: DateTime<Utc>) -> Value {
    let mut functions: Vec<Value> = FUNCTIONS
        .iter()
        .map(|(name, work, mode)| {
            json!({"name": name, "handler_type": "process", "handler_config":
            {"program": program, "args": [effects, work.to_string(), mode], "grace_seconds": 1}})
        })
        .collect();
    // It ignores SIGTERM, so the worker must kill it.
    let command = Effects::at(effects, 0.0).command("trap '' TERM; work=200");
    functions.push(json!({"name": "stubborn", "handler_type": "process",
                          "handler_config": {"shell": true, "command": command, "grace_seconds": 1}}));
    json!({"calendars": [breaks(now)], "task_functions": functions, "jobs": jobs(now)})
}

fn breaks(now: DateTime<Utc>) -> Value {
    let (lasts, period) = BREAK;
    let local = |seconds: i64| (now + TimeDelta::seconds(seconds)).format("%Y-%m-%dT%H:%M:%S").to_string();
    let windows: Vec<Value> = (1..=BREAKS)
        .map(|number| json!({"from": local(number * period - lasts), "until": local(number * period)}))
        .collect();
    json!({"name": "breaks", "timezone": "UTC", "windows": windows})
}

pub(crate) fn theirs(program: &Path, effects: &Path) -> Value {
    let function = json!({"name": "quick", "handler_type": "process", "handler_config": {"program": program, "args": [effects, "60", "well"]}});
    let jobs: Vec<Value> = (0..2).map(|n| interval(&format!("theirs-{n}"), 2 + n, "quick")).collect();
    json!({"task_functions": [function], "jobs": jobs})
}

fn jobs(now: DateTime<Utc>) -> Vec<Value> {
    let mut jobs = Vec::new();
    for (n, number) in (0_u64..12).zip(0_usize..) {
        let (policy, instances) = POLICIES.get(number % POLICIES.len()).copied().unwrap_or(("skip", 1));
        let misfire = MISFIRES.get(number % MISFIRES.len()).copied().unwrap_or("skip");
        let more = json!({"overlap_policy": policy, "max_instances": instances, "misfire_policy": misfire, "misfire_cap": 20,
                          "jitter_seconds": n % 2, "retry_policy": retries(6, 1, "fixed")});
        jobs.push(with(
            interval(&format!("steady-{n}"), 1 + n % 5, if n % 3 == 0 { "busy" } else { "quick" }),
            &more,
        ));
    }
    for (n, expression) in CRONS.iter().enumerate() {
        let config = json!({"expression": expression, "seconds": expression.split(' ').count() == 6});
        let zone = if n % 2 == 0 { "UTC" } else { "Europe/Berlin" };
        jobs.push(json!({"name": format!("cron-{n}"), "function": "quick", "job_type": "cron", "schedule_config": config, "timezone": zone,
                         "misfire_policy": MISFIRES.get(n % MISFIRES.len()), "retry_policy": retries(6, 1, "fixed")}));
    }
    for (n, (days, day_match)) in DAYS.iter().enumerate() {
        let mut config = json!({"expression": format!("{n} 4 {days}")});
        if let Some(day_match) = day_match {
            config["day_match"] = (*day_match).into();
        }
        jobs.push(json!({"name": format!("days-{n}"), "function": "quick", "job_type": "cron", "schedule_config": config,
                         "retry_policy": retries(6, 1, "fixed")}));
    }
    for (n, policy) in MISFIRES.iter().enumerate() {
        let more = json!({"calendars": ["breaks"], "misfire_policy": policy, "retry_policy": retries(6, 1, "fixed")});
        jobs.push(with(interval(&format!("excluded-{n}"), 2, "quick"), &more));
    }
    for (name, kind) in [("flaky-0", "fixed"), ("flaky-1", "linear"), ("flaky-2", "exponential")] {
        jobs.push(with(interval(name, 3, "flaky"), &json!({"retry_policy": retries(4, 1, kind)})));
    }
    jobs.push(with(interval("broken-0", 5, "broken"), &json!({"retry_policy": retries(2, 1, "fixed")})));
    let short = json!({"timeout_seconds": 1, "retry_policy": retries(2, 1, "fixed")});
    jobs.push(with(interval("hangs-0", 7, "hangs"), &short));
    jobs.push(with(interval("stubborn-0", 11, "stubborn"), &short));
    jobs.push(with(
        interval("long-0", 4, "long"),
        &json!({"overlap_policy": "queue", "misfire_policy": "skip", "retry_policy": retries(6, 1, "fixed")}),
    ));
    jobs.push(with(
        interval("crowded-0", 1, "long"),
        &json!({"misfire_policy": "skip", "retry_policy": retries(6, 1, "fixed")}),
    ));
    for n in 0..4 {
        jobs.push(with(
            interval(&format!("narrow-{n}"), 2, "busy"),
            &json!({"queue": "narrow", "retry_policy": retries(6, 1, "fixed")}),
        ));
    }
    // A fire that finds an open run replaces it.
    let replaces = json!({"overlap_policy": "cancel_oldest", "misfire_policy": "skip", "retry_policy": retries(6, 1, "fixed")});
    jobs.push(with(interval("replaced-0", 2, "long"), &replaces));
    jobs.push(with(interval("replaced-1", 1, "long"), &with(replaces.clone(), &json!({"max_instances": 2}))));
    for (name, seconds) in [("once-0", 8), ("once-1", 25), ("once-2", 50), ("once-3", 100)] {
        jobs.push(with(
            one_off(name, now + TimeDelta::seconds(seconds)),
            &json!({"retry_policy": retries(6, 1, "fixed")}),
        ));
    }
    for (n, (from, until)) in (0_u64..).zip([(10, 40), (20, 90), (30, 300)]) {
        let bounds = json!({"start_at": now + TimeDelta::seconds(from), "end_at": now + TimeDelta::seconds(until),
                            "retry_policy": retries(6, 1, "fixed")});
        jobs.push(with(interval(&format!("bounded-{n}"), 2 + n, "quick"), &bounds));
    }
    for (name, more) in [
        ("side-project", json!({"project": "side"})),
        ("side-queue", json!({"queue": "side"})),
        ("side-function", json!({"function": "switched"})),
    ] {
        jobs.push(with(
            with(interval(name, 2, "quick"), &json!({"retry_policy": retries(6, 1, "fixed")})),
            &more,
        ));
    }
    jobs.push(after("after-0", json!([{"job": "steady-0"}]), "all"));
    jobs.push(after("after-1", json!([{"job": "steady-1"}, {"job": "steady-2"}]), "all"));
    jobs.push(after("after-2", json!([{"job": "broken-0", "on": "failure"}, {"job": "cron-0"}]), "any"));
    for n in 0..MANUAL_JOBS {
        jobs.push(manual(&format!("by-hand-{n}"), "quick"));
    }
    // Further triggers are queued.
    jobs.push(with(manual("by-hand-long", "long"), &json!({"overlap_policy": "queue", "max_instances": 2})));
    jobs.extend((0..CHANGED).map(|n| changed(n, u64::try_from(n).unwrap_or(0))));
    jobs
}

/// A job that clients change repeatedly.
pub(crate) fn changed(job: usize, choice: u64) -> Value {
    let name = format!("changed-{job}");
    let mut job = match choice {
        6..=9 => {
            let expression =
                CRONS.get(usize::try_from(choice - 6).unwrap_or(0)).copied().unwrap_or("* * * * *");
            let config = json!({"expression": expression, "seconds": expression.split(' ').count() == 6});
            json!({"name": name, "function": "quick", "job_type": "cron", "schedule_config": config})
        }
        _ => interval(&name, 1 + choice, "quick"),
    };
    job["retry_policy"] = retries(3, 1, "fixed");
    job
}

/// A job that a client creates: never due, due once soon, or with an endless schedule.
pub(crate) fn new_job(name: &str, seconds: u64, now: DateTime<Utc>) -> Value {
    match seconds {
        0 => manual(name, "quick"),
        1 => one_off(name, now + TimeDelta::seconds(9)),
        _ => interval(name, seconds + 4, "quick"),
    }
}

fn one_off(name: &str, at: DateTime<Utc>) -> Value {
    json!({"name": name, "function": "quick", "job_type": "oneoff", "schedule_config": {"run_at": at}})
}

fn interval(name: &str, seconds: u64, function: &str) -> Value {
    json!({"name": name, "function": function, "job_type": "interval", "schedule_config": {"seconds": seconds}})
}

fn manual(name: &str, function: &str) -> Value {
    json!({"name": name, "function": function, "job_type": "manual", "overlap_policy": "allow", "max_instances": 100,
           "retry_policy": retries(8, 1, "fixed")})
}

fn after(name: &str, jobs: Value, mode: &str) -> Value {
    json!({"name": name, "function": "quick", "job_type": "manual", "after": jobs, "after_mode": mode, "overlap_policy": "queue"})
}

fn retries(attempts: u32, seconds: u32, kind: &str) -> Value {
    json!({"max_attempts": attempts, "backoff_seconds": seconds, "backoff_type": kind, "max_backoff_seconds": 5, "jitter_percent": 10})
}

fn with(mut job: Value, more: &Value) -> Value {
    if let (Some(job), Some(more)) = (job.as_object_mut(), more.as_object()) {
        job.extend(more.clone());
    }
    job
}
