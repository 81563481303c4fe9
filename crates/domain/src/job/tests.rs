use serde_json::json;

use super::*;
use sched_timetable::Schedule;

fn settings() -> JobSettings {
    JobSettings {
        name: "nightly".into(),
        description: String::new(),
        scope: Scope::Project,
        project: Some("default".into()),
        function: "dump".into(),
        task_args: json!({}),
        job_type: JobType::Cron,
        schedule_config: json!({"expression": "0 2 * * *"}),
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
        misfire_policy: MisfireKind::FireOnce,
        misfire_grace_seconds: None,
        misfire_cap: 100,
        max_instances: 1,
        overlap_policy: OverlapPolicy::Skip,
        queue: None,
        priority: None,
        timeout_seconds: None,
        start_within_seconds: None,
        retry_policy: None,
        is_enabled: true,
    }
}

#[test]
fn valid_settings_have_no_mistakes() {
    assert_eq!(settings().check(), []);
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let bad = JobSettings {
        name: "Nightly Job".into(),
        project: None,
        task_args: json!([1]),
        schedule_config: json!({"expression": "61 * * * *"}),
        timezone: "Mars/Base".into(),
        start_at: DateTime::from_timestamp(60, 0),
        end_at: DateTime::from_timestamp(0, 0),
        max_instances: 0,
        priority: Some(101),
        timeout_seconds: Some(0),
        start_within_seconds: Some(0),
        retry_policy: Some(RetryPolicy { max_attempts: 0, ..RetryPolicy::standard(1) }),
        after_mode: AfterMode::Any,
        ..settings()
    };
    let fields: Vec<String> = bad.check().into_iter().map(|error| error.field).collect();
    assert_eq!(fields.len(), 12, "{fields:?}");
    for expected in [
        "name",
        "project",
        "task_args",
        "timezone",
        "end_at",
        "max_instances",
        "priority",
        "timeout_seconds",
        "start_within_seconds",
        "retry_policy.max_attempts",
        "after_mode",
    ] {
        assert!(fields.iter().any(|field| field == expected), "{expected} in {fields:?}");
    }
    assert!(fields.iter().any(|field| field.starts_with("schedule_config")), "{fields:?}");
}

#[test]
fn a_one_off_in_the_past_keeps_its_instant() {
    let at: DateTime<Utc> = "2020-01-01T00:00:00Z".parse().unwrap();
    let now = at + chrono::TimeDelta::days(1000);
    assert_eq!(JobSettings::first_cursor(&Schedule::OneOff(at).into(), now), Ok(Some(at)));
    assert_eq!(JobSettings::first_cursor(&Schedule::Manual.into(), now), Ok(None));
}

#[test]
fn earliest_past_one_off_is_kept() {
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let several = JobSettings {
        job_type: JobType::OneOff,
        schedule_config: json!({"any_of": [
            {"run_at": "2026-04-01T09:00:00Z"}, {"run_at": "2026-03-01T09:00:00Z"},
        ]}),
        ..settings()
    };
    let now = at("2026-03-01T10:00:00Z");
    let timetable = several.timetable(TenantId(Uuid::nil()), now, &[]).unwrap();
    assert_eq!(JobSettings::first_cursor(&timetable, now), Ok(Some(at("2026-03-01T09:00:00Z"))));
}
