//! Each blocker: condition, order and sentence.

use chrono::TimeDelta;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

use super::super::CalendarFacts;
use super::*;
use crate::ids::{DispatchId, TenantId};
use crate::job::dependency::AfterCondition;
use crate::job::{JobSettings, MisfireKind, Scope};
use crate::run_state::DispatchStatus;
use sched_timetable::CalendarRoll;

fn at(text: &str) -> DateTime<Utc> {
    format!("2026-03-02T{text}:00Z").parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn pending() -> Pending {
    Pending {
        available_at: at("12:00"),
        expires_at: None,
        attempt: 0,
        error: None,
        line: None,
        ahead: BoundedCount { count: 0, is_exact: true },
        is_tenant_paused: false,
        paused_project: None,
        paused_function: None,
        is_job_full: false,
    }
}

fn paused(name: &str, reason: Option<&str>) -> PausedResource {
    PausedResource { name: name.into(), reason: reason.map(Into::into) }
}

fn queue() -> QueueFacts {
    QueueFacts { name: "io".into(), workers: 1, slots: 8, busy: 2, ..QueueFacts::default() }
}

fn rate(claimed: i64) -> Rate {
    Rate { count: 10, period_seconds: 60, claimed, next_at: Some(at("12:31")) }
}

fn holder(status: DispatchStatus) -> Holder {
    Holder { id: DispatchId(Uuid::from_u128(7)), status, since: at("12:10"), worker: Some("host-b".into()) }
}

const ID: &str = "00000000-0000-0000-0000-000000000007";

#[track_caller]
fn assert_waits(pending: &Pending, queue: &QueueFacts, holders: &[Holder], expected: &[(&str, &str)]) {
    let waits = of_dispatch(at("12:30"), pending, queue, holders);
    let told: Vec<(&str, String)> = waits.iter().map(|wait| (wait.as_str(), wait.sentence())).collect();
    let told: Vec<(&str, &str)> = told.iter().map(|(word, text)| (*word, text.as_str())).collect();
    assert_eq!(told, expected);
}

#[test]
fn unblocked_run_waits_for_its_turn() {
    let turn = "it is the next of its tenant in queue io; 1 worker serves it, 2 of 8 slots busy";
    assert_waits(&pending(), &queue(), &[], &[("turn", turn)]);
    let behind = Pending { ahead: BoundedCount { count: 1_000, is_exact: false }, ..pending() };
    let two = QueueFacts { workers: 2, slots: 16, busy: 16, ..queue() };
    let turn = "1,000+ of its tenant are before it in queue io; 2 workers serve it, 16 of 16 slots busy";
    assert_waits(&behind, &two, &[], &[("turn", turn)]);
}

#[test]
fn all_blockers_are_reported_in_order() {
    let held = Pending {
        is_tenant_paused: true,
        paused_project: Some(paused("night", Some("audit"))),
        paused_function: Some(paused("mail", None)),
        ahead: BoundedCount { count: 3, is_exact: true },
        expires_at: Some(at("12:20")),
        ..pending()
    };
    let queue = QueueFacts {
        is_paused: true,
        pause_reason: Some("disk is full".into()),
        workers: 0,
        draining: 2,
        unserved_since: Some(at("12:05")),
        max_running: Some(2),
        running: Some(2),
        rate: Some(rate(10)),
        quota: Some(RunningQuota { most: 5, running: 5 }),
        ..queue()
    };
    assert_waits(
        &held,
        &queue,
        &[],
        &[
            ("expired", "nothing: no worker claimed it by 2026-03-02T12:20:00Z, and it will expire"),
            ("project_paused", "the project night is paused: audit"),
            ("function_paused", "the task function mail is paused"),
            ("tenant_paused", "the tenant is paused"),
            ("queue_paused", "the queue io is paused: disk is full"),
            (
                "no_worker",
                "no living worker serves the queue io since 2026-03-02T12:05:00.000Z (2 finish their runs and claim nothing new)",
            ),
            ("quota", "the tenant has 5 of 5 running runs, its quota"),
            ("queue_full", "the queue io is full: 2 of 2 run"),
            (
                "queue_rate",
                "the rate of the queue io is used up: 10 of 10 claimed within 60s; the next may be at 2026-03-02T12:31:00.000Z",
            ),
            ("turn", "3 of its tenant are before it in queue io"),
        ],
    );
}

#[test]
fn limit_with_room_is_not_a_blocker() {
    let roomy = QueueFacts {
        max_running: Some(2),
        running: Some(1),
        rate: Some(rate(9)),
        quota: Some(RunningQuota { most: 2, running: 1 }),
        ..queue()
    };
    let waits = of_dispatch(at("12:30"), &pending(), &roomy, &[]);
    assert_eq!(waits.iter().map(Wait::as_str).collect::<Vec<_>>(), ["turn"]);
}

#[test]
fn queued_run_names_the_runs_before_it() {
    let in_line = Pending { line: Some(BoundedCount { count: 4, is_exact: true }), ..pending() };
    let told = format!(
        "other runs of the job must end first: run {ID} on host-b since 2026-03-02T12:10:00.000Z, and 4 queued before it"
    );
    assert_waits(&in_line, &queue(), &[holder(DispatchStatus::InProgress)], &[("overlap", &told)]);
    let first = Pending { line: Some(BoundedCount { count: 0, is_exact: true }), ..pending() };
    let told =
        format!("other runs of the job must end first: run {ID}, waiting since 2026-03-02T12:10:00.000Z");
    assert_waits(&first, &queue(), &[holder(DispatchStatus::Pending)], &[("overlap", &told)]);
    let wait = of_dispatch(at("12:30"), &in_line, &queue(), &[holder(DispatchStatus::InProgress)]).remove(0);
    assert_eq!((wait.dispatches().len(), wait.before().map(|before| before.count)), (1, Some(4)));
}

#[test]
fn run_queued_by_pause_waits_only_if_job_full() {
    let in_line = Pending {
        line: Some(BoundedCount { count: 4, is_exact: true }),
        paused_function: Some(paused("mail", Some("leak"))),
        ..pending()
    };
    let pause = ("function_paused", "the task function mail is paused: leak");
    assert_waits(&in_line, &queue(), &[], &[pause]);
    assert_waits(&in_line, &queue(), &[holder(DispatchStatus::InProgress)], &[pause]);
    let full = Pending { is_job_full: true, ..in_line };
    let words: Vec<_> = of_dispatch(at("12:30"), &full, &queue(), &[holder(DispatchStatus::InProgress)])
        .iter()
        .map(Wait::as_str)
        .collect();
    assert_eq!(words, ["function_paused", "overlap"]);
}

#[test]
fn retry_reports_its_time_and_last_error() {
    let retry = Pending {
        available_at: at("12:45"),
        attempt: 2,
        error: Some("exit code 3\nand more".into()),
        expires_at: Some(at("12:20")),
        ..pending()
    };
    let told = "attempt 3 is due at 2026-03-02T12:45:00.000Z after: exit code 3";
    assert_waits(&retry, &queue(), &[], &[("retry", told)]);
    let later = Pending { available_at: at("12:45"), ..pending() };
    assert_waits(&later, &queue(), &[], &[("not_due", "it is due at 2026-03-02T12:45:00.000Z")]);
    let wait = of_dispatch(at("12:30"), &later, &queue(), &[]).remove(0);
    assert_eq!(wait.until(), Some(at("12:45")));
}

fn job() -> JobFacts {
    let settings = JobSettings {
        name: "job".into(),
        description: String::new(),
        scope: Scope::Project,
        project: Some("night".into()),
        function: "f".into(),
        task_args: json!({}),
        job_type: JobType::Cron,
        schedule_config: json!({"expression": "0 * * * *"}),
        timezone: "UTC".into(),
        dst_gap: None,
        dst_overlap: None,
        start_at: None,
        end_at: None,
        max_runs: None,
        jitter_seconds: 0,
        calendars: Vec::new(),
        calendar_roll: CalendarRoll::Skip,
        expected_duration_seconds: None,
        after: Vec::new(),
        after_mode: AfterMode::All,
        start_within_seconds: None,
        misfire_policy: MisfireKind::FireOnce,
        misfire_grace_seconds: None,
        misfire_cap: 100,
        max_instances: 1,
        overlap_policy: OverlapPolicy::Skip,
        queue: None,
        priority: None,
        timeout_seconds: None,
        retry_policy: None,
        is_enabled: true,
    };
    JobFacts {
        now: at("12:30"),
        tenant: TenantId(Uuid::nil()),
        created_at: at("00:00"),
        settings,
        calendars: Vec::new(),
        disabled_reason: None,
        is_paused: false,
        pause_reason: None,
        paused_until: None,
        next_run_at: Some(at("13:00")),
        held_until: None,
        is_tenant_paused: false,
        paused_project: None,
        is_function_active: true,
        paused_function: None,
        queue: queue(),
        upstream: Vec::new(),
        leadership: Leadership::Live,
        quota: None,
        open: 0,
        holders: Vec::new(),
    }
}

fn upstream(job: &str, on: AfterCondition, met_at: Option<&str>) -> Upstream {
    Upstream { job: job.into(), on, met_at: met_at.map(at) }
}

#[track_caller]
fn assert_job_waits(facts: &JobFacts, expected: &[(&str, &str)]) {
    let waits = of_job(facts);
    let told: Vec<(&str, String)> = waits
        .iter()
        .filter(|wait| wait.as_str() != "fire_time")
        .map(|wait| (wait.as_str(), wait.sentence()))
        .collect();
    let told: Vec<(&str, &str)> = told.iter().map(|(word, text)| (*word, text.as_str())).collect();
    assert_eq!(told, expected);
}

#[test]
fn each_job_blocker_is_reported() {
    let set = |change: fn(&mut JobFacts)| {
        let mut facts = job();
        change(&mut facts);
        facts
    };
    let table: Vec<(JobFacts, (&str, &str))> = vec![
        (
            set(|job| (job.settings.is_enabled, job.disabled_reason) = (false, Some("no such zone".into()))),
            ("job_disabled", "the job is disabled and has no fire times: no such zone"),
        ),
        (
            set(|job| (job.is_paused, job.pause_reason) = (true, Some("disk".into()))),
            ("job_paused", "the job is paused until a user resumes it; its fires are skipped: disk"),
        ),
        (
            set(|job| (job.is_paused, job.paused_until) = (true, Some(at("14:00")))),
            ("job_paused", "the job is paused until 2026-03-02T14:00:00Z; its fires are skipped"),
        ),
        (
            set(|job| job.paused_project = Some(PausedResource { name: "night".into(), reason: None })),
            ("project_paused", "the project night is paused"),
        ),
        (set(|job| job.is_tenant_paused = true), ("tenant_paused", "the tenant is paused")),
        (set(|job| job.queue.is_paused = true), ("queue_paused", "the queue io is paused")),
        (
            set(|job| (job.is_function_active, job.paused_function) = (false, Some(paused("f", None)))),
            ("function_inactive", "the task function f is inactive"),
        ),
        (
            set(|job| job.paused_function = Some(paused("f", Some("leak")))),
            ("function_paused", "the task function f is paused: leak"),
        ),
        (set(|job| job.leadership = Leadership::None), ("no_leader", "no scheduler leads")),
        (
            set(|job| job.leadership = Leadership::Expired { ago: Duration::from_millis(42_500) }),
            (
                "no_leader",
                "no scheduler leads: the lease of the last one expired 42s ago, and no scheduler has taken over yet",
            ),
        ),
        (set(|job| job.queue.workers = 0), ("no_worker", "no living worker serves the queue io")),
        (
            set(|job| job.quota = Some(Quota { per_minute: 5, used: 5, next_at: at("12:31") })),
            (
                "quota",
                "the tenant has dispatched 5 of 5 in this minute; the next one begins at 2026-03-02T12:31:00.000Z",
            ),
        ),
        (
            set(|job| job.held_until = Some(at("12:40"))),
            (
                "held",
                "the scheduler holds the job until 2026-03-02T12:40:00.000Z, because of the tenant's quota or an operator",
            ),
        ),
        (
            set(|job| (job.queue.max_running, job.queue.running) = (Some(1), Some(1))),
            ("queue_full", "the queue io is full: 1 of 1 run"),
        ),
        (
            set(|job| (job.next_run_at, job.settings.max_runs) = (None, Some(1))),
            ("over", "nothing: its last fire time has passed"),
        ),
        (
            set(|job| (job.next_run_at, job.settings.job_type) = (None, JobType::Manual)),
            ("trigger", "it has no schedule and needs a trigger"),
        ),
    ];
    for (facts, expected) in table {
        assert_job_waits(&facts, &[expected]);
    }
    let nothing = set(|job| {
        job.quota = Some(Quota { per_minute: 5, used: 4, next_at: at("12:31") });
        job.held_until = Some(at("12:29"));
    });
    assert_job_waits(&nothing, &[]);
}

#[test]
fn full_job_reports_the_overlap_policy() {
    for (policy, told) in [
        (OverlapPolicy::Skip, "a new fire is skipped"),
        (OverlapPolicy::Queue, "a new fire is queued"),
        (OverlapPolicy::CancelOldest, "the next fire cancels the oldest"),
    ] {
        let mut facts = JobFacts { open: 1, holders: vec![holder(DispatchStatus::InProgress)], ..job() };
        facts.settings.overlap_policy = policy;
        let expected = format!(
            "1 of 1 runs of the job are open (run {ID} on host-b since 2026-03-02T12:10:00.000Z); {told}"
        );
        assert_job_waits(&facts, &[("overlap", &expected)]);
    }
    let mut facts = JobFacts { open: 1, ..job() };
    facts.settings.overlap_policy = OverlapPolicy::Allow;
    assert_job_waits(&facts, &[]);
}

#[test]
fn dependent_job_lists_unfinished_predecessors() {
    use AfterCondition::{Completion, Failure, Success};
    let mut facts = JobFacts { next_run_at: None, ..job() };
    facts.settings.job_type = JobType::Manual;
    facts.upstream = vec![
        upstream("check", Failure, None),
        upstream("load", Success, None),
        upstream("sweep", Completion, Some("11:00")),
    ];
    let all = "other jobs must end first: job check to fail and job load to succeed; job sweep has at 2026-03-02T11:00:00.000Z";
    assert_job_waits(&facts, &[("dependency", all)]);
    facts.settings.after_mode = AfterMode::Any;
    let any = "other jobs must end first: job check to fail or job load to succeed or job sweep to end";
    assert_job_waits(&facts, &[("dependency", any)]);
}

#[test]
fn excluded_fire_reports_the_next_allowed_one() {
    let mut facts = JobFacts { next_run_at: Some(at("15:00")), ..job() };
    facts.settings.calendars = vec!["freeze".into()];
    facts.calendars = vec![CalendarFacts {
        name: "freeze".into(),
        definition: json!({"windows": [{"from": "2026-03-02T12:45", "until": "2026-03-02T14:30"}]}),
        updated_at: at("00:00"),
    }];
    let told = "the fire time 2026-03-02T13:00:00Z is excluded by a calendar (freeze); the next one is 2026-03-02T15:00:00Z";
    assert_job_waits(&facts, &[("calendar", told)]);
    facts.now = at("14:30") + TimeDelta::minutes(1);
    assert_job_waits(&facts, &[]);
}

#[test]
fn next_fire_is_reported_last() {
    let told = |facts: &JobFacts| of_job(facts).last().map(Wait::sentence).unwrap_or_default();
    assert_eq!(told(&job()), "its next fire time is 2026-03-02T13:00:00Z");
    let due = JobFacts { next_run_at: Some(at("12:00")), ..job() };
    assert_eq!(
        told(&due),
        "its fire of 2026-03-02T12:00:00Z is due, and the leader decides about it at its next tick"
    );
    let paused = JobFacts { is_paused: true, paused_until: Some(at("15:30")), ..job() };
    assert_eq!(told(&paused), "its next fire time is 2026-03-02T16:00:00Z");
}
