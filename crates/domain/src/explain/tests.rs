//! Each fate, and the detection of a missing record.

mod dispatches;
mod records;
mod timetables;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::job::{JobSettings, MisfireKind, OverlapPolicy, Scope};
use sched_timetable::{CalendarRoll, JobType};

fn at(text: &str) -> DateTime<Utc> {
    let text = if text.len() == 5 { format!("2026-03-02T{text}:00Z") } else { text.to_owned() };
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn hourly() -> JobSettings {
    JobSettings {
        name: "job".into(),
        description: String::new(),
        scope: Scope::Project,
        project: Some("default".into()),
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
        after_mode: crate::job::dependency::AfterMode::All,
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
    }
}

fn version(number: i64, change: &str, changed_at: &str, settings: JobSettings) -> Version {
    Version {
        number,
        change: change.into(),
        settings: Ok(settings),
        changed_at: at(changed_at),
        changed_by: "ada".into(),
        pause_reason: None,
        paused_until: None,
        ended_at: None,
    }
}

fn skip(first: &str, last: &str, count: u64, reason: SkipReason) -> Skip {
    Skip {
        first: at(first),
        last: at(last),
        count,
        is_count_exact: true,
        reason,
        detail: None,
        recorded_at: at(last) + TimeDelta::milliseconds(20),
        term: Some(Term(3)),
        lead: None,
        in_the_way: Vec::new(),
    }
}

fn dispatch(fire: &str) -> DispatchRecord {
    let fire = at(fire);
    let after = |milliseconds| fire + TimeDelta::milliseconds(milliseconds);
    DispatchRecord {
        id: DispatchId(Uuid::from_u128(7)),
        scheduled_for: fire,
        created_at: after(12),
        available_at: fire,
        claimed_at: Some(after(17)),
        completed_at: Some(after(1_217)),
        status: DispatchStatus::Completed,
        queue: "default".into(),
        is_in_line: false,
        is_catch_up: false,
        triggered_by: Trigger::Scheduler,
        triggered_by_user: None,
        term: Some(Term(3)),
        scheduler: Some("host-a".into()),
        attempt: 1,
        worker: Some("host-b".into()),
        error: None,
        cancel_requested_at: None,
        successor: None,
        cause: None,
        trace: crate::trace::TraceContext::begin(1, 1),
        waits: Vec::new(),
        attempts: vec![Attempt {
            number: 1,
            outcome: AttemptOutcome::Completed,
            started_at: after(17),
            completed_at: after(1_217),
            worker: Some("host-b".into()),
            exit_code: Some(0),
            error: None,
        }],
    }
}

fn evidence() -> Evidence {
    Evidence {
        tenant: TenantId(Uuid::nil()),
        created_at: at("00:00"),
        settled_until: at("12:30"),
        cursor: Some(at("13:00")),
        is_enabled: true,
        is_paused: false,
        paused_until: None,
        held_until: None,
        ledger_starts_at: None,
        now: at("12:30"),
        versions: vec![version(1, "created", "00:00", hourly())],
        calendars: Vec::new(),
        disabled_at: Vec::new(),
        skips: Vec::new(),
        dispatches: Vec::new(),
        triggers: Vec::new(),
    }
}

fn explained(evidence: &Evidence, from: &str, to: &str) -> Explanation {
    explain(evidence, at(from), at(to)).expect("a window that is not too long")
}

/// `first-last count fate`, in hours and minutes.
fn shown(explanation: &Explanation) -> Vec<String> {
    let time = |at: DateTime<Utc>| at.format("%H:%M").to_string();
    let line = |line: &TimelineEntry| {
        let reason = match &line.fate {
            Fate::Skipped { skip, .. } => format!(" {}", skip.reason),
            _ => String::new(),
        };
        format!("{}-{} {} {}{reason}", time(line.first), time(line.last), line.count, line.fate.as_str())
    };
    explanation.lines.iter().map(line).collect()
}

#[test]
fn every_fire_time_of_a_day_has_its_fate() {
    let evidence = Evidence {
        dispatches: vec![dispatch("08:00"), dispatch("12:00")],
        skips: vec![
            skip("09:00", "10:00", 2, SkipReason::Overlap),
            skip("11:00", "11:00", 1, SkipReason::Misfire),
        ],
        ..evidence()
    };
    let explanation = explained(&evidence, "08:00", "15:00");
    assert_eq!(
        shown(&explanation),
        [
            "08:00-08:00 1 dispatched",
            "09:00-10:00 2 skipped overlap",
            "11:00-11:00 1 skipped misfire",
            "12:00-12:00 1 dispatched",
            "13:00-14:00 2 to_come",
        ]
    );
    assert_eq!(
        explanation.summary.sentence(),
        "7 fire times: 2 dispatched, 3 skipped (2 overlap, 1 misfire), 2 to come, 0 unaccounted"
    );
    assert!(explanation.summary.is_sound());
    assert_eq!(
        explanation.lines[0].sentence(),
        "succeeded: dispatched 12ms after its time by host-a (term 3); waited 5ms in queue default; \
         attempt 1 succeeded on host-b after 1.2s"
    );
}

#[test]
fn fire_time_without_a_record_is_unaccounted_for() {
    let evidence = Evidence { dispatches: vec![dispatch("10:00"), dispatch("12:00")], ..evidence() };
    let explanation = explained(&evidence, "10:00", "12:30");
    assert_eq!(
        shown(&explanation),
        ["10:00-10:00 1 dispatched", "11:00-11:00 1 unaccounted", "12:00-12:00 1 dispatched"]
    );
    assert!(!explanation.summary.is_sound());
    assert!(explanation.summary.sentence().contains("1 UNACCOUNTED"), "{}", explanation.summary.sentence());
    assert!(explanation.lines[1].sentence().contains("UNACCOUNTED"));
}

#[test]
fn cursor_past_an_unrecorded_fire_is_detected() {
    let gone = Evidence { settled_until: at("10:30"), cursor: Some(at("13:00")), ..evidence() };
    assert_eq!(shown(&explained(&gone, "11:00", "12:30")), ["11:00-12:00 2 unaccounted"]);
    let none = Evidence { settled_until: at("10:30"), cursor: None, ..evidence() };
    assert_eq!(shown(&explained(&none, "12:00", "14:00")), ["12:00-13:00 2 unaccounted"]);
}

#[test]
fn a_fire_time_with_a_dispatch_and_a_skip_is_a_defect() {
    let evidence = Evidence {
        dispatches: vec![dispatch("11:00")],
        skips: vec![skip("10:00", "12:00", 3, SkipReason::Misfire)],
        ..evidence()
    };
    let explanation = explained(&evidence, "10:00", "12:30");
    assert_eq!(
        shown(&explanation),
        ["10:00-10:00 1 skipped misfire", "11:00-11:00 1 two_fates", "12:00-12:00 1 skipped misfire"]
    );
    assert!(!explanation.summary.is_sound());
}

#[test]
fn undecided_fire_reports_since_when_and_why() {
    let due = Evidence { settled_until: at("10:30"), cursor: Some(at("11:00")), ..evidence() };
    let explanation = explained(&due, "11:00", "12:30");
    assert_eq!(shown(&explanation), ["11:00-12:00 2 undecided"]);
    assert!(explanation.summary.is_sound(), "no decision was due yet");
    assert!(explanation.lines[0].sentence().contains("is one leading?"));
    let held = Evidence { held_until: Some(at("12:31")), ..due };
    let sentence = explained(&held, "11:00", "12:30").lines[0].sentence();
    assert!(sentence.contains("held back until 2026-03-02T12:31"), "{sentence}");
}

#[test]
fn fire_left_due_by_a_change_is_shown_at_cursor() {
    let left = Evidence {
        versions: vec![
            version(1, "created", "00:00", hourly()),
            version(
                2,
                "updated",
                "12:10",
                JobSettings { schedule_config: json!({"expression": "30 3 * * *"}), ..hourly() },
            ),
        ],
        settled_until: at("12:10"),
        cursor: Some(at("12:00")),
        now: at("12:11"),
        skips: vec![skip("11:00", "11:00", 1, SkipReason::Misfire)],
        ..evidence()
    };
    let explanation = explained(&left, "11:00", "12:30");
    assert_eq!(shown(&explanation), ["11:00-11:00 1 skipped misfire", "12:00-12:00 1 undecided"]);
    let strange = Evidence { cursor: Some(at("12:05")), ..left };
    assert_eq!(
        shown(&explained(&strange, "11:00", "12:30")),
        ["11:00-11:00 1 skipped misfire", "12:00-12:00 1 unaccounted", "12:05-12:05 1 undecided"]
    );
}

#[test]
fn schedule_in_effect_decides_the_fires() {
    let half = JobSettings { schedule_config: json!({"expression": "30 * * * *"}), ..hourly() };
    let evidence = Evidence {
        versions: vec![
            version(1, "created", "00:00", hourly()),
            version(2, "updated", "10:00", half.clone()),
            version(3, "disabled", "11:00", JobSettings { is_enabled: false, ..half.clone() }),
            version(4, "enabled", "12:00", half),
        ],
        dispatches: vec![dispatch("09:00"), dispatch("10:00"), dispatch("10:30")],
        settled_until: at("12:20"),
        cursor: Some(at("12:30")),
        now: at("12:20"),
        ..evidence()
    };
    let explanation = explained(&evidence, "09:00", "13:00");
    assert_eq!(
        shown(&explanation),
        [
            "09:00-09:00 1 dispatched",
            "10:00-10:00 1 dispatched",
            "10:30-10:30 1 dispatched",
            "11:30-11:30 1 disabled",
            "12:30-12:30 1 to_come",
        ]
    );
    let versions: Vec<_> = explanation.lines.iter().map(|line| line.version).collect();
    assert_eq!(versions, [Some(1), Some(1), Some(2), Some(3), Some(4)]);
    let sentence = explanation.summary.sentence();
    assert!(
        sentence.starts_with("4 fire times: 3 dispatched")
            && sentence.ends_with("1 more if the job had not been disabled"),
        "{sentence}"
    );
}

#[test]
fn no_fires_expected_before_creation_or_after_end() {
    let limited = Version { ended_at: Some(at("11:00")), ..version(1, "created", "00:00", hourly()) };
    let evidence = Evidence {
        created_at: at("09:30"),
        versions: vec![limited],
        dispatches: vec![dispatch("10:00"), dispatch("11:00")],
        settled_until: at("11:00"),
        cursor: None,
        ..evidence()
    };
    assert_eq!(
        shown(&explained(&evidence, "08:00", "14:00")),
        [
            "08:00-09:30 0 not_created",
            "10:00-10:00 1 dispatched",
            "11:00-11:00 1 dispatched",
            "12:00-13:00 2 ended",
        ]
    );
}

#[test]
fn job_disabled_by_scheduler_has_no_fire_times() {
    let evidence = Evidence {
        is_enabled: false,
        cursor: None,
        settled_until: at("10:05"),
        disabled_at: vec![at("10:05")],
        skips: vec![Skip { is_count_exact: false, ..skip("10:00", "10:05", 1, SkipReason::Disabled) }],
        ..evidence()
    };
    let explanation = explained(&evidence, "10:00", "14:00");
    assert_eq!(shown(&explanation), ["10:00-10:00 1 skipped disabled", "11:00-13:00 3 disabled"]);
    assert!(explanation.lines[1].sentence().contains("the scheduler disabled the job at 2026-03-02T10:05"));
    let in_sql = Evidence { disabled_at: vec![], skips: vec![], ..evidence };
    assert_eq!(shown(&explained(&in_sql, "11:00", "13:00")), ["11:00-12:00 2 disabled"]);
}

#[test]
fn version_of_scheduler_names_the_scheduler() {
    let off = JobSettings { is_enabled: false, ..hourly() };
    let disabled = Version { changed_by: "scheduler".into(), ..version(2, "disabled", "10:05", off) };
    let evidence = Evidence {
        is_enabled: false,
        cursor: None,
        settled_until: at("10:05"),
        versions: vec![version(1, "created", "00:00", hourly()), disabled],
        disabled_at: vec![at("10:05")],
        skips: vec![Skip { is_count_exact: false, ..skip("10:00", "10:05", 1, SkipReason::Disabled) }],
        ..evidence()
    };
    let explanation = explained(&evidence, "10:00", "14:00");
    assert_eq!(shown(&explanation), ["10:00-10:00 1 skipped disabled", "11:00-13:00 3 disabled"]);
    assert!(explanation.lines[1].sentence().contains("the scheduler disabled the job at 2026-03-02T10:05"));
}

#[test]
fn unreadable_settings_give_unclear_fates() {
    let evidence = Evidence {
        versions: vec![Version {
            settings: Err("no field `name`".into()),
            ..version(1, "created", "00:00", hourly())
        }],
        dispatches: vec![dispatch("11:00")],
        ..evidence()
    };
    let explanation = explained(&evidence, "10:00", "12:30");
    assert_eq!(shown(&explanation), ["10:00-12:30 0 unclear", "11:00-11:00 1 dispatched"]);
    assert_eq!(explanation.summary.unclear, 1);
}

#[test]
fn empty_and_oversized_windows_are_rejected() {
    let at_once = explain(&evidence(), at("10:00"), at("10:00"));
    assert_eq!(at_once, Err(ExplainError::NoWindow));
    let seconds =
        JobSettings { job_type: JobType::Interval, schedule_config: json!({"seconds": 1}), ..hourly() };
    let often = Evidence { versions: vec![version(1, "created", "00:00", seconds)], ..evidence() };
    assert_eq!(explain(&often, at("03:00"), at("06:00")), Err(ExplainError::TooMany));
    let long = explain(&often, at("03:00"), at("05:46")).expect("9,960 fire times");
    assert_eq!(long.summary.unaccounted, 9_960);
    assert_eq!(long.lines.len(), 1, "one line says it");
}
