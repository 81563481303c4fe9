//! Schedules as stored and sent.

use serde_json::json;

use super::{
    super::{DstGap, DstOverlap, JobType, MisfirePolicy, Schedule, SkipReason, Zone, tzdata_version},
    assert_fires, parse,
};

#[test]
fn weekdays_at_midnight_cross_the_change_of_clocks() {
    let schedule =
        parse(JobType::Cron, &json!({"expression": "0 0 * * 1-5"}), "Europe/Berlin").expect("a schedule");
    let expected =
        ["2026-03-26T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z", "2026-03-31T22:00:00Z"];
    assert_fires(&schedule, "2026-03-26T12:00:00Z", &expected);
}

#[test]
fn omitted_fields_depend_on_their_position() {
    for (config, expression) in [
        (json!({"minute": "*/10"}), "*/10 * * * *"),
        (json!({"minute": 30}), "30 * * * *"),
        (json!({"hour": "*/2"}), "0 */2 * * *"),
        (json!({"hour": 3, "minute": "15, 45"}), "15,45 3 * * *"),
        (json!({"day_of_week": "mon-fri"}), "0 0 * * MON-FRI"),
        (json!({"day": 1, "minute": 20}), "20 * 1 * *"),
        (json!({"day": "15"}), "0 0 15 * *"),
        (json!({"month": "6-8"}), "0 0 1 6-8 *"),
        (json!({"month": "*"}), "0 0 1 * *"),
        (json!({"month": 1, "day_of_week": "sun"}), "0 0 * 1 SUN"),
        (json!({"hour": "*/2", "minute": "0", "day_of_week": "*", "day": "*", "month": "*"}), "0 */2 * * *"),
        (json!({"day_of_week": 0, "hour": 9}), "0 9 * * MON"),
        (json!({"day_of_week": "0-4", "hour": 9}), "0 9 * * MON-FRI"),
        (json!({"day_of_week": "6"}), "0 0 * * SUN"),
        (json!({"day_of_week": "5-0"}), "0 0 * * SUN,MON,SAT"),
        (json!({"day_of_week": "*/2"}), "0 0 * * SUN,MON,WED,FRI"),
        (json!({"day_of_week": "sat-mon"}), "0 0 * * SUN,MON,SAT"),
        (json!({"day_of_week": "0#2"}), "0 0 * * MON#2"),
        (json!({"day": "last"}), "0 0 L * *"),
        (json!({"day": "2nd fri", "hour": 4}), "0 4 * * FRI#2"),
        (json!({"day": "last sun,1"}), "0 0 1 * SUNL"),
    ] {
        match parse(JobType::Cron, &config, "UTC") {
            Ok(Schedule::Cron(cron)) => assert_eq!(cron.spec().canonical(), expression, "{config}"),
            other => panic!("{config}: {other:?}"),
        }
    }
}

#[test]
fn a_mistake_is_reported_at_its_path() {
    let cases = [
        (
            JobType::Cron,
            json!({"expression": "60 * * * *"}),
            "schedule_config.expression",
            "minute `60` is not",
        ),
        (JobType::Cron, json!({"expression": "* * * *"}), "schedule_config.expression", "has 4 fields"),
        (JobType::Cron, json!({"expression": 5}), "schedule_config.expression", "is not text"),
        (
            JobType::Cron,
            json!({"expression": "@daily", "hour": 1}),
            "schedule_config.hour",
            "cannot be combined with `expression`",
        ),
        (JobType::Cron, json!({"expresion": "@daily"}), "schedule_config", "`expresion` is not a field"),
        (JobType::Cron, json!({"year": 2027}), "schedule_config", "`year` is not a field"),
        (JobType::Cron, json!({}), "schedule_config.expression", "is missing"),
        (JobType::Cron, json!({"hour": 24}), "schedule_config.hour", "`24` is not a value"),
        (JobType::Cron, json!({"hour": -1}), "schedule_config.hour", "neither text nor a whole number"),
        (JobType::Cron, json!({"hour": [1]}), "schedule_config.hour", "neither text nor a whole number"),
        (JobType::Cron, json!({"day_of_week": 7}), "schedule_config.day_of_week", "0 is Monday"),
        (JobType::Cron, json!({"day": "6th fri"}), "schedule_config.day", "1st, 2nd"),
        (JobType::Cron, json!({"day": "1st foo"}), "schedule_config.day", "no weekday"),
        (JobType::Cron, json!({"day": 31, "month": 2}), "schedule_config.expression", "never fires"),
        (JobType::Interval, json!({}), "schedule_config", "must be from 1 second"),
        (JobType::Interval, json!({"seconds": 0}), "schedule_config", "adds up to 0 seconds"),
        (JobType::Interval, json!({"weeks": 4_000_000_000_u32}), "schedule_config", "36525 days"),
        (JobType::Interval, json!({"hours": 1.5}), "schedule_config.hours", "whole number"),
        (JobType::Interval, json!({"hours": -1}), "schedule_config.hours", "whole number"),
        (JobType::Interval, json!({"hour": 1}), "schedule_config", "`hour` is not a field"),
        (JobType::Interval, json!({"hours": 1, "anchor": "yesterday"}), "schedule_config.anchor", "RFC 3339"),
        (JobType::OneOff, json!({}), "schedule_config.run_at", "is missing"),
        (JobType::OneOff, json!({"run_at": "2030-01-01"}), "schedule_config.run_at", "not `\"2030-01-01\"`"),
        (JobType::OneOff, json!({"run_at": 12}), "schedule_config.run_at", "not `12`"),
        (JobType::Manual, json!({"run_at": "now"}), "schedule_config", "allowed are none"),
        (JobType::Manual, json!([]), "schedule_config", "not an object"),
    ];
    for (job_type, config, field, part) in cases {
        let error = parse(job_type, &config, "UTC").expect_err(&config.to_string());
        assert_eq!(error.field(), field, "{config}: {error}");
        assert!(error.message().contains(part), "{config}: {error}");
        assert_eq!(error.to_string(), format!("{field}: {}", error.message()));
    }
}

#[test]
fn only_iana_names_are_zones() {
    for name in ["Europe/Berlin", "europe/berlin", "UTC", "Asia/Kolkata", "America/Argentina/Buenos_Aires"] {
        assert!(Zone::parse(name).expect(name).name().eq_ignore_ascii_case(name));
    }
    assert_eq!(Zone::parse("europe/berlin").expect("a zone").name(), "Europe/Berlin");
    for name in
        ["", "Mars/Olympus", "+02:00", "localtime", "posixrules", "right/UTC", "../UTC", "/etc/passwd", "é"]
    {
        let error = Zone::parse(name).expect_err(name);
        assert_eq!(error.field(), "timezone");
        assert!(error.message().contains("IANA name"), "{error}");
    }
    for job_type in JobType::ALL {
        let error = parse(*job_type, &json!({}), "Nowhere").expect_err("an unknown zone");
        assert_eq!(error.field(), "timezone");
    }
}

#[test]
fn an_interval_keeps_its_distance_from_its_anchor() {
    let config = json!({"minutes": 90, "anchor": "2026-01-01T00:10:00+01:00"});
    let schedule = parse(JobType::Interval, &config, "Europe/Berlin").expect("a schedule");
    let expected = ["2026-03-29T00:40:00Z", "2026-03-29T02:10:00Z", "2026-03-29T03:40:00Z"];
    assert_fires(&schedule, "2026-03-29T00:00:00Z", &expected);
    assert_fires(&schedule, "2025-12-31T23:10:00Z", &["2026-01-01T00:40:00Z"]);
    assert_fires(&schedule, "2025-12-31T23:09:59.999999999Z", &["2025-12-31T23:10:00Z"]);
    assert_fires(&schedule, "2025-12-31T20:10:00Z", &["2025-12-31T21:40:00Z"]);
    assert_eq!(schedule.tzdata_version(), None);
}

#[test]
fn an_interval_without_an_anchor_starts_at_the_creation_of_the_job() {
    let schedule = parse(JobType::Interval, &json!({"hours": 1, "seconds": 5}), "UTC").expect("a schedule");
    assert_fires(&schedule, "2026-01-05T08:30:00Z", &["2026-01-05T09:30:05Z", "2026-01-05T10:30:10Z"]);
}

#[test]
fn an_interval_of_days_stays_on_the_wall_clock() {
    let config = json!({"days": 2, "anchor": "2026-03-27T02:30:00+01:00"});
    let schedule = parse(JobType::Interval, &config, "Europe/Berlin").expect("a schedule");
    // On the 29th half past two does not exist.
    let expected =
        ["2026-03-27T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-31T00:30:00Z", "2026-04-02T00:30:00Z"];
    assert_fires(&schedule, "2026-03-26T00:00:00Z", &expected);
    assert_eq!(schedule.tzdata_version(), Some(tzdata_version()));
    let elapsed = json!({"days": 1, "hours": 24, "anchor": "2026-03-27T02:30:00+01:00"});
    let schedule = parse(JobType::Interval, &elapsed, "Europe/Berlin").expect("a schedule");
    assert_fires(&schedule, "2026-03-27T02:00:00Z", &["2026-03-29T01:30:00Z", "2026-03-31T01:30:00Z"]);
}

#[test]
fn a_one_off_fires_once_and_a_manual_job_never() {
    let config = json!({"run_at": "2030-01-31T09:00:00.123456789+02:00"});
    let schedule = parse(JobType::OneOff, &config, "UTC").expect("a schedule");
    assert_fires(&schedule, "2026-01-01T00:00:00Z", &["2030-01-31T07:00:00.123456Z"]);
    assert_eq!(schedule.next_after(super::utc("2030-01-31T07:00:00.123456Z")), Ok(None));
    let manual = parse(JobType::Manual, &json!({}), "UTC").expect("a schedule");
    assert_eq!(manual.next_after(super::utc("2026-01-01T00:00:00Z")), Ok(None));
    assert_eq!((schedule.job_type(), manual.job_type()), (JobType::OneOff, JobType::Manual));
}

#[test]
fn nothing_fires_after_the_last_year() {
    for (job_type, config) in [
        (JobType::Cron, json!({"expression": "* * * * *"})),
        (JobType::Interval, json!({"seconds": 1})),
        (JobType::Interval, json!({"days": 1})),
    ] {
        let schedule = parse(job_type, &config, "America/New_York").expect("a schedule");
        assert_eq!(schedule.next_after(super::utc("9999-12-31T23:59:59.5Z")), Ok(None), "{config}");
        assert_eq!(schedule.next_after(chrono::DateTime::<chrono::Utc>::MAX_UTC), Ok(None), "{config}");
        let next = schedule.next_after(chrono::DateTime::<chrono::Utc>::MIN_UTC).expect("the engine works");
        assert!(next.is_some() || matches!(schedule, Schedule::Interval(_)), "{config}");
    }
}

#[test]
fn names_read_back_as_themselves() {
    for job_type in JobType::ALL {
        assert_eq!(job_type.as_str().parse(), Ok(*job_type));
        assert_eq!(json!(job_type), json!(job_type.as_str()));
    }
    for gap in DstGap::ALL {
        assert_eq!(gap.to_string().parse(), Ok(*gap));
    }
    for overlap in DstOverlap::ALL {
        assert_eq!(overlap.to_string().parse(), Ok(*overlap));
    }
    for reason in SkipReason::ALL {
        assert_eq!(reason.to_string().parse(), Ok(*reason));
    }
    for name in MisfirePolicy::NAMES {
        assert_eq!(MisfirePolicy::from_parts(name, 3).expect(name).as_str(), name);
    }
    let error = "Cron".parse::<JobType>().expect_err("names are lower case");
    assert_eq!(error.to_string(), "\"Cron\" is unknown; use one of cron, interval, oneoff, manual");
    assert_eq!(MisfirePolicy::from_parts("fire_all", 0).expect_err("no cap").field(), "misfire_cap");
    assert_eq!(MisfirePolicy::from_parts("all", 1).expect_err("unknown").field(), "misfire_policy");
}
