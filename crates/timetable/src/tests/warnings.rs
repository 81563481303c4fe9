//! Warnings about schedules.

use serde_json::{Value, json};

use super::{
    super::{DstGap, DstOverlap, JobType, ScheduleSource, warnings},
    utc,
};

const NOW: &str = "2026-01-15T12:00:00Z";

fn warn(
    job_type: JobType,
    config: &Value,
    timezone: &str,
    dst: (Option<DstGap>, Option<DstOverlap>),
) -> Vec<String> {
    let source = ScheduleSource {
        job_type,
        config,
        timezone,
        dst_gap: dst.0,
        dst_overlap: dst.1,
        created_at: utc("2026-01-05T01:30:00Z"),
        hash_key: "a job",
    };
    warnings(&source.into(), utc(NOW)).unwrap_or_else(|error| panic!("{config} is refused: {error}"))
}

fn of_cron(text: &str) -> Vec<String> {
    warn(JobType::Cron, &json!({ "expression": text }), "UTC", (None, None))
}

#[test]
fn each_pitfall_of_an_expression_has_its_warning() {
    for (text, expected) in [
        (
            "0 0 * * 1-5",
            "day_of_week: the numbers in `1-5` mean other weekdays elsewhere; here 1 is Monday, and 0 and 7 are Sunday; `MON-FRI` is read alike everywhere",
        ),
        (
            "0 0 * * 7",
            "day_of_week: the numbers in `7` mean other weekdays elsewhere; here 1 is Monday, and 0 and 7 are Sunday; `SUN` is read alike everywhere",
        ),
        (
            "0 0 * * 5#2",
            "day_of_week: the numbers in `5#2` mean other weekdays elsewhere; here 1 is Monday, and 0 and 7 are Sunday; `FRI#2` is read alike everywhere",
        ),
        (
            "0 0 */2 * FRI",
            "day, day_of_week: a day must match both `*/2` and `FRI`, since one starts with `*`; Kubernetes fires if either matches; set day_match to choose",
        ),
        (
            "0 0 13 * */2",
            "day, day_of_week: a day must match both `13` and `*/2`, since one starts with `*`; Kubernetes fires if either matches; set day_match to choose",
        ),
        (
            "*/7 * * * *",
            "minute: `*/7` begins again every hour: from 56 to the next 0 it is 4, not 7 minutes",
        ),
        (
            "5/7 * * * *",
            "minute: `5/7` begins again every hour: from 54 to the next 5 it is 11, not 7 minutes",
        ),
        (
            "0-59/40 * * * *",
            "minute: `0-59/40` begins again every hour: from 40 to the next 0 it is 20, not 40 minutes",
        ),
        ("0 */5 * * *", "hour: `*/5` begins again every day: from 20 to the next 0 it is 4, not 5 hours"),
        ("0 0 1 */5 *", "month: `*/5` begins again every year: from 11 to the next 1 it is 2, not 5 months"),
        (
            "0 0 * * */2",
            "day_of_week: `*/2` begins again every week: from SAT to the next SUN it is 1, not 2 days",
        ),
        (
            "0 0 */2 * *",
            "day: `*/2` begins again at 1 every month, so the last step of a month is rarely 2 days",
        ),
        (
            "0 0 31 * *",
            "day: February, April, June, September and November have no day 31 and nothing fires there instead; `L` is the last day of every month",
        ),
        (
            "0 0 1,30 * *",
            "day: February has no day 30 and nothing fires there instead; `L` is the last day of every month",
        ),
        (
            "0 0 29 1-3 *",
            "day: February of most years has no day 29 and nothing fires there instead; `L` is the last day of every month",
        ),
        (
            "0 0 31W * *",
            "day: February, April, June, September and November have no day 31, so `31W` skips them; `LW` is the last working day of every month",
        ),
        (
            "H/7 * * * *",
            "minute: `H/7` begins again every hour, so the step from one hour to the next is not 7 minutes",
        ),
        (
            "0 0 H/7 * *",
            "day: `H/7` begins again every month, so the step from one month to the next is rarely 7 days",
        ),
        (
            "0 0 H * MON",
            "day, day_of_week: a day that matches either `H` or `MON` fires here; Jenkins would need both to match; set day_match to choose",
        ),
        ("0 0 29 2 *", "schedule_config: nothing fires for more than a year, until 2028-02-29T00:00:00Z"),
    ] {
        let warnings = of_cron(text);
        assert!(warnings.iter().any(|warning| warning == expected), "{text}: {warnings:#?}");
    }
}

#[test]
fn portable_expressions_have_no_warnings() {
    for text in [
        "* * * * *",
        "*/15 * * * *",
        "5/15 * * * *",
        "10-50/15 * * * *",
        "0 */6 * * *",
        "0 0 * * MON-FRI",
        "@weekly",
        "0 0 1 */3 *",
        "0 0 13 * FRI",
        "0 0 ? * FRI#2",
        "0 0 31 1,3 *",
        "0 0 25-31 * *",
        "0 0 28W * *",
        "0 0 L * *",
        "0 0 1 1 *",
        "0 0 1-31 * *",
        "0 0 * * FRIL",
        "H H * * *",
        "H/15 H/2 * * *",
        "0 0 H * *",
        "0 0 13 * THU",
        "0 0 * * H(1-5)",
    ] {
        assert_eq!(of_cron(text), [""; 0], "{text}");
    }
}

#[test]
fn field_form_warnings_use_its_numbering() {
    let config = json!({"day_of_week": "0-4", "day": 13, "hour": "*/5"});
    let warnings = warn(JobType::Cron, &config, "UTC", (None, None));
    assert_eq!(
        warnings,
        [
            "day_of_week: the numbers in `0-4` mean other weekdays elsewhere; here, in the field form, 0 is Monday and 6 is Sunday; `MON-FRI` is read alike everywhere",
            "hour: `*/5` begins again every day: from 20 to the next 0 it is 4, not 5 hours",
        ]
    );
}

#[test]
fn chosen_day_match_has_no_warning() {
    for config in [
        json!({"expression": "0 0 */2 * FRI", "day_match": "either"}),
        json!({"expression": "0 0 */15 * FRI", "day_match": "both"}),
        json!({"expression": "0 0 H * MON", "day_match": "both"}),
        json!({"expression": "0 0 13 * FRI", "day_match": "both"}),
        json!({"day": 13, "day_of_week": "fri", "day_match": "either"}),
    ] {
        let warnings = warn(JobType::Cron, &config, "UTC", (None, None));
        assert!(!warnings.iter().any(|warning| warning.starts_with("day, ")), "{config}: {warnings:#?}");
    }
    let hashed = of_cron("0 0 */2 * H");
    assert!(!hashed.iter().any(|warning| warning.starts_with("day, ")), "{hashed:#?}");
}

#[test]
fn clock_change_is_warned_in_advance() {
    let berlin = |text: &str, dst| warn(JobType::Cron, &json!({ "expression": text }), "Europe/Berlin", dst);
    let gap = "timezone: 2026-03-29 02:30 does not exist in Europe/Berlin, where clocks go forward from 02:00 to 03:00: ";
    let overlap = "timezone: 2026-10-25 02:30 occurs twice in Europe/Berlin, where clocks go back from 03:00 to 02:00: ";
    for (dst, of_gap, of_overlap) in [
        (
            (None, None),
            "its fire is moved to 03:00 (dst_gap shift)",
            "only the first fires (dst_overlap first)",
        ),
        (
            (Some(DstGap::Skip), Some(DstOverlap::Second)),
            "it does not fire (dst_gap skip)",
            "only the second fires (dst_overlap second)",
        ),
        (
            (None, Some(DstOverlap::Both)),
            "its fire is moved to 03:00 (dst_gap shift)",
            "both fire (dst_overlap both)",
        ),
    ] {
        assert_eq!(berlin("30 2 * * *", dst), [format!("{gap}{of_gap}"), format!("{overlap}{of_overlap}")]);
    }
    // Clocks change on Sundays; three o'clock exists; elapsed time ignores clocks.
    for text in ["30 2 * * MON-FRI", "0 3 * * *", "*/30 * * * *", "15 * * * *"] {
        assert_eq!(berlin(text, (None, None)), [""; 0], "{text}");
    }
    assert_eq!(
        berlin("*/30 * * * *", (None, Some(DstOverlap::First))),
        [
            "timezone: 2026-10-25 02:00 occurs twice in Europe/Berlin, where clocks go back from 03:00 to 02:00: only the first fires (dst_overlap first)"
        ]
    );
    let utc = warn(JobType::Cron, &json!({"expression": "30 2 * * *"}), "UTC", (None, None));
    assert_eq!(utc, [""; 0]);
}

#[test]
fn clock_change_over_midnight_names_both_dates() {
    let config = json!({"expression": "30 23 * * *"});
    let warnings = warn(JobType::Cron, &config, "America/Santiago", (None, None));
    assert_eq!(
        warnings,
        [
            "timezone: 2026-04-04 23:30 occurs twice in America/Santiago, where clocks go back from 2026-04-05 00:00 to 23:00: only the first fires (dst_overlap first)"
        ]
    );
}

#[test]
fn other_schedules_have_warnings_too() {
    let daily = warn(JobType::Interval, &json!({"days": 1}), "Europe/Berlin", (None, None));
    assert_eq!(daily.len(), 2, "{daily:?}");
    assert!(daily.iter().all(|warning| warning.starts_with("timezone: 2026-")), "{daily:?}");
    assert_eq!(warn(JobType::Interval, &json!({"hours": 24}), "Europe/Berlin", (None, None)), [""; 0]);
    assert_eq!(
        warn(JobType::Interval, &json!({"days": 400}), "UTC", (None, None)),
        ["schedule_config: nothing fires for more than a year, until 2027-02-09T01:30:00Z"]
    );
    assert_eq!(
        warn(JobType::OneOff, &json!({"run_at": "2026-01-01T00:00:00Z"}), "UTC", (None, None)),
        ["schedule_config: nothing fires after 2026-01-15T12:00:00Z"]
    );
    assert_eq!(
        warn(JobType::OneOff, &json!({"run_at": "2026-02-01T00:00:00Z"}), "UTC", (None, None)),
        [""; 0]
    );
    assert_eq!(warn(JobType::Manual, &json!({}), "UTC", (None, None)), [""; 0]);
    // A fire soon does not hide the silence after it.
    let config = json!({"days": 400, "anchor": "2026-02-01T00:00:00Z"});
    assert_eq!(
        warn(JobType::Interval, &config, "UTC", (None, None)),
        [
            "schedule_config: after 2026-02-01T00:00:00Z nothing fires for more than a year, until 2027-03-08T00:00:00Z"
        ]
    );
}
