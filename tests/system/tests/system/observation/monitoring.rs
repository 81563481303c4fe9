//! The alert rules and the dashboard in `deploy` use only metrics and labels that the daemons
//! export.
//!
//! The test compares them with the daemons' metrics after each has done a little of everything. An
//! alert on an unknown name or label never fires.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, every, shell_jobs};
use test_support::{http, wait_for};

/// Labels from Prometheus and its configuration, with all values.
const GIVEN: [&str; 3] = ["instance", "job", "installation"];

/// The exported series: for each series its labels with their values.
type Shown = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn deployed(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The pairs of a selector without braces: label, operator, value.
fn matchers(selector: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    let mut rest = selector;
    while let Some((label, after)) = rest.split_once(['=', '!']) {
        let (value, left) = after.split_once('"').unwrap().1.split_once('"').unwrap();
        let how = if after.starts_with('~') { "~" } else { "" };
        found.push((label.trim_matches([',', ' ']), how, value));
        rest = left;
    }
    found
}

/// The series that a text names, each with its selector.
fn named(text: &str) -> Vec<(&str, &str)> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let places = text.match_indices("sched_").map(|(at, _)| text.split_at(at));
    places
        .filter(|(before, _)| !before.ends_with(is_of_name))
        .map(|(_, rest)| {
            let (name, after) = rest.split_at(rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()));
            let selector = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            (name, selector.map_or("", |(selector, _)| selector))
        })
        .collect()
}

fn record(shown: &mut Shown, page: &str) {
    for line in page.lines().filter(|line| line.starts_with("sched_")) {
        let series = line.rsplit_once(' ').unwrap().0;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let of_name = shown.entry(name.to_owned()).or_default();
        for (label, _, value) in matchers(labels) {
            of_name.entry(label.to_owned()).or_default().insert(value.to_owned());
        }
    }
}

/// Names in a text that no daemon exports.
fn unknown(shown: &Shown, text: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, selector) in named(text) {
        let Some(labels) = shown.get(name) else {
            unknown.push(name.to_owned());
            continue;
        };
        for (label, how, value) in matchers(selector) {
            let wanted = if how == "~" { value.split('|').collect() } else { vec![value] };
            let values = labels.get(label);
            let is_given = GIVEN.contains(&label);
            if !is_given && !wanted.iter().all(|one| values.is_some_and(|values| values.contains(*one))) {
                unknown.push(format!("{name}{{{label}: {value}}}"));
            }
        }
    }
    unknown
}

fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

async fn pages(system: &mut Installation) -> Shown {
    let mut shown = Shown::new();
    record(&mut shown, &system.scheduler_metrics(0).await);
    let worker = system.workers[0].health_addr().await;
    record(&mut shown, &http::get(worker, "/metrics").await.unwrap().body);
    record(&mut shown, &http::get(system.api_addr(), "/metrics").await.unwrap().body);
    shown
}

/// NaN while the daemon does not export the series.
fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(f64::NAN, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_the_dashboard_ask_for_what_the_daemons_show() {
    let mut system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("busy", 1), every("paused", 1)])).await;
    system.execute("UPDATE scheduled_jobs SET is_paused = true WHERE name = 'paused'").await;
    system.wait_count("runs", "SELECT count(*) FROM job_execution_log", 2).await;
    system.wait_count("a skip", "SELECT count(*) FROM skipped_fires", 1).await;
    let rules = deployed("prometheus/rules.yml");
    let dashboard: Value = serde_json::from_str(&deployed("grafana/sched.json")).unwrap();
    let queries = queries(&dashboard);
    assert!(named(&rules).len() >= 8 && queries.len() >= 40, "{rules}\n{queries:?}");
    assert!(queries.iter().all(|query| !named(query).is_empty()), "{queries:?}");
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has a distinct id");
    // Some metrics appear only with the next action or check.
    wait_for("every metric of the rules and queries", PATIENCE, async || {
        let shown = pages(&mut system).await;
        let missing: Vec<String> =
            queries.iter().chain([&rules]).flat_map(|text| unknown(&shown, text)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("nobody shows {missing:?}")) }
    })
    .await;
    let shown = pages(&mut system).await;
    let wrong = "rate(sched_nothing_total[5m]) / sched_leader{status=\"x\"} + sched_attempts_total{status=~\"failed|LATE\"}";
    assert_eq!(
        unknown(&shown, wrong),
        ["sched_nothing_total", "sched_leader{status: x}", "sched_attempts_total{status: failed|LATE}"],
        "the check finds nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_shows_who_works_and_how_long_the_oldest_waits() {
    let mut system = Installation::with(1, 1).await;
    let elsewhere = json!({"name": "left", "job_type": "manual", "queue": "nobody"});
    system.execute("INSERT INTO queues (tenant_id, name) SELECT id, 'nobody' FROM tenants").await;
    system.apply(&shell_jobs("true", &[elsewhere])).await;
    system.trigger("left").await;
    let online = |page: &str| {
        let of = |status| value(page, &format!("sched_workers_online{{status=\"{status}\"}}"));
        (of("idle"), of("busy"), of("draining"))
    };
    let oldest = |page: &str| value(page, "sched_oldest_pending_seconds");
    wait_for("the idle worker and the waiting run", PATIENCE, async || {
        let page = system.scheduler_metrics(0).await;
        if online(&page) == (1.0, 0.0, 0.0) && oldest(&page) > 0.0 { Ok(()) } else { Err(page) }
    })
    .await;
    // Another scheduler takes over, and this one no longer knows the value.
    system.start_scheduler(&[]).await;
    let stepped_down = system.schedctl(&["leader", "step-down"]).await;
    assert!(stepped_down.status.success(), "{stepped_down:?}");
    wait_for("the successor", PATIENCE, async || {
        let (before, now) = (system.scheduler_metrics(0).await, system.scheduler_metrics(1).await);
        let is_quiet = online(&before) == (0.0, 0.0, 0.0) && oldest(&before) < f64::EPSILON;
        let is_known = online(&now) == (1.0, 0.0, 0.0) && oldest(&now) > 0.0;
        if is_quiet && is_known { Ok(()) } else { Err(format!("{before}\n{now}")) }
    })
    .await;
}

/// As with a right that was revoked, or a trigger of another program.
#[tokio::test(flavor = "multi_thread")]
async fn failing_task_of_the_leader_is_reported() {
    let mut system = Installation::with(1, 1).await;
    let part = async |system: &Installation| {
        let health = system.get("/health/detailed").await;
        let leader = health["components"].as_array().unwrap().iter().find(|part| part["name"] == "leader");
        (health["status"].clone(), leader.unwrap().clone())
    };
    let failing = "sched_task_failing_seconds{task=\"waiting\"}";
    wait_for("the metric before a failure", PATIENCE, async || {
        let shown = value(&system.scheduler_metrics(0).await, failing);
        if shown < f64::EPSILON { Ok(()) } else { Err(format!("{shown}")) }
    })
    .await;
    system.execute("REVOKE SELECT ON unserved_queues FROM sched, sched_daemon, sched_api").await;
    let reported = wait_for("the failing task", PATIENCE, async || {
        let (status, leader) = part(&system).await;
        if leader["reason"].is_string() { Ok((status, leader)) } else { Err(leader.to_string()) }
    })
    .await;
    assert_eq!(reported.0, "degraded");
    assert_eq!(reported.1["details"]["failing_tasks"], json!(["waiting"]), "{}", reported.1);
    let shown = value(&system.scheduler_metrics(0).await, failing);
    assert!(shown > 5.0, "{shown}");
    let status = system.scheduler_status(0).await.to_string();
    assert!(status.contains("lacks a right") && status.contains("unserved_queues"), "{status}");
    system.execute("GRANT SELECT ON unserved_queues TO sched_daemon, sched_api").await;
    wait_for("the task to recover", PATIENCE, async || {
        let (_, leader) = part(&system).await;
        if leader["status"] == "ok" { Ok(()) } else { Err(leader.to_string()) }
    })
    .await;
}
