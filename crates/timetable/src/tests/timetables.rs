//! Bounds, calendars and rolls.

mod slow_model;

use chrono::{DateTime, Datelike as _, Utc};
use serde_json::{Value, json};

use super::{
    super::{
        Calendar, CalendarRoll, Count, DstGap, JobType, MisfirePolicy, MisfireRules, Preview, Schedule,
        ScheduleError, ScheduleSource, Timetable, TimetableSource, plan, preview,
    },
    utc, zone,
};

fn calendar(definition: &Value) -> Calendar {
    Calendar::parse(definition).unwrap_or_else(|error| panic!("{definition} is refused: {error}"))
}

/// A source without bounds and calendars.
fn source<'a>(job_type: JobType, config: &'a Value, timezone: &'a str) -> TimetableSource<'a> {
    TimetableSource {
        schedule: ScheduleSource {
            job_type,
            config,
            timezone,
            dst_gap: None,
            dst_overlap: None,
            created_at: utc("2026-01-05T08:30:00Z"),
            hash_key: "",
        },
        start_at: None,
        end_at: None,
        calendars: &[],
        roll: CalendarRoll::Skip,
    }
}

fn cron(text: &str, timezone: &str, definition: &Value, roll: CalendarRoll) -> Timetable {
    let config = json!({"expression": text});
    let calendars = [calendar(definition)];
    let source = source(JobType::Cron, &config, timezone);
    Timetable::parse(&TimetableSource { calendars: &calendars, roll, ..source }).expect("a timetable")
}

fn bounded(config: &Value, job_type: JobType, start: Option<&str>, end: Option<&str>) -> Timetable {
    let source = source(job_type, config, "UTC");
    Timetable::parse(&TimetableSource { start_at: start.map(utc), end_at: end.map(utc), ..source })
        .expect("a timetable")
}

fn fires(timetable: &Timetable, after: &str, count: usize) -> Vec<DateTime<Utc>> {
    let next = |at: &DateTime<Utc>| timetable.next_after(*at).expect("the engine works");
    std::iter::successors(next(&utc(after)), next).take(count).collect()
}

fn assert_fires(timetable: &Timetable, after: &str, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|text| utc(text)).collect();
    assert_eq!(fires(timetable, after, expected.len()), expected, "{timetable:?}");
}

#[test]
fn nothing_fires_before_the_start_or_at_the_end() {
    let hourly = json!({"expression": "0 * * * *"});
    let table = bounded(&hourly, JobType::Cron, Some("2026-03-01T10:00:00Z"), Some("2026-03-01T13:00:00Z"));
    let expected = ["2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"].map(utc);
    assert_eq!(fires(&table, "2020-01-01T00:00:00Z", 10), expected);
    assert_eq!(table.next_after(utc("2026-03-01T12:00:00Z")), Ok(None));
    assert_fires(&table, "2026-03-01T10:00:00Z", &["2026-03-01T11:00:00Z"]);
}

#[test]
fn the_end_must_be_later_than_the_start() {
    let config = json!({"expression": "0 * * * *"});
    for end in ["2026-03-01T10:00:00Z", "2026-03-01T09:59:59Z"] {
        let source = source(JobType::Cron, &config, "UTC");
        let start_at = Some(utc("2026-03-01T10:00:00Z"));
        let error = Timetable::parse(&TimetableSource { start_at, end_at: Some(utc(end)), ..source });
        assert_eq!(error.expect_err("it is refused").field(), "end_at");
    }
}

#[test]
fn excluded_fire_is_skipped_by_default() {
    let holidays = json!({"yearly": ["12-25", "12-26"], "weekly": ["SAT", "SUN"]});
    // Christmas 2026 is a Friday, the 26th a Saturday.
    assert_fires(
        &cron("0 9 * * *", "Europe/Berlin", &holidays, CalendarRoll::Skip),
        "2026-12-23T12:00:00Z",
        &["2026-12-24T08:00:00Z", "2026-12-28T08:00:00Z", "2026-12-29T08:00:00Z"],
    );
}

#[test]
fn a_freeze_is_a_window_to_the_minute() {
    let freeze = json!({"windows": [{"from": "2026-03-01T10:30:00", "until": "2026-03-01T12:00:00"}]});
    assert_fires(
        &cron("*/30 * * * *", "UTC", &freeze, CalendarRoll::Skip),
        "2026-03-01T09:45:00Z",
        &["2026-03-01T10:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:30:00Z"],
    );
}

#[test]
fn calendar_may_have_its_own_zone() {
    let holiday = json!({"timezone": "Asia/Tokyo", "dates": ["2026-03-02"]});
    // In UTC, the second of March in Tokyo begins at 15:00 on the first.
    assert_fires(
        &cron("0 */6 * * *", "UTC", &holiday, CalendarRoll::Skip),
        "2026-03-01T06:00:00Z",
        &["2026-03-01T12:00:00Z", "2026-03-02T18:00:00Z"],
    );
}

#[test]
fn a_fire_on_a_holiday_moves_to_the_next_or_the_previous_business_day() {
    let weekends = json!({"weekly": ["SAT", "SUN"], "dates": ["2026-04-03", "2026-04-06"]});
    // Payday on the 5th: April's is Easter Sunday, between Good Friday and Easter Monday.
    let next = cron("0 9 5 * *", "Europe/Berlin", &weekends, CalendarRoll::NextBusinessDay);
    assert_fires(&next, "2026-03-20T00:00:00Z", &["2026-04-07T07:00:00Z", "2026-05-05T07:00:00Z"]);
    let previous = cron("0 9 5 * *", "Europe/Berlin", &weekends, CalendarRoll::PreviousBusinessDay);
    assert_fires(&previous, "2026-03-20T00:00:00Z", &["2026-04-02T07:00:00Z", "2026-05-05T07:00:00Z"]);
}

#[test]
fn a_moved_fire_keeps_its_time_on_the_clock_over_a_change() {
    let weekends = json!({"weekly": ["SAT", "SUN"]});
    // Clocks go forward on Sunday 29 March 2026 in Berlin.
    let next = cron("0 9 28 3 *", "Europe/Berlin", &weekends, CalendarRoll::NextBusinessDay);
    assert_fires(&next, "2026-03-20T00:00:00Z", &["2026-03-30T07:00:00Z"]);
}

#[test]
fn fires_at_one_instant_are_one_fire() {
    let weekends = json!({"weekly": ["SAT", "SUN"]});
    for roll in [CalendarRoll::NextBusinessDay, CalendarRoll::PreviousBusinessDay] {
        assert_fires(
            &cron("0 9 * * *", "UTC", &weekends, roll),
            "2026-03-05T12:00:00Z",
            &["2026-03-06T09:00:00Z", "2026-03-09T09:00:00Z", "2026-03-10T09:00:00Z"],
        );
    }
}

#[test]
fn a_fire_is_not_moved_out_of_the_bounds_nor_too_far() {
    let config = json!({"expression": "0 9 5 * *"});
    let calendars = [calendar(&json!({"dates": ["2026-04-05/2026-04-08", "2026-06-01/2026-12-31"]}))];
    let roll = CalendarRoll::NextBusinessDay;
    let source = TimetableSource { calendars: &calendars, roll, ..source(JobType::Cron, &config, "UTC") };
    let table = Timetable::parse(&TimetableSource { end_at: Some(utc("2026-04-09T09:00:00Z")), ..source });
    let table = table.expect("a timetable");
    assert_eq!(table.next_after(utc("2026-04-01T00:00:00Z")), Ok(None), "the ninth is the end");
    let table = Timetable::parse(&source).expect("a timetable");
    // From June to October a free day is too far.
    assert_fires(&table, "2026-05-01T00:00:00Z", &["2026-05-05T09:00:00Z", "2027-01-01T09:00:00Z"]);
    let lost = table.excluded_between(utc("2026-05-01T00:00:00Z"), utc("2027-01-01T00:00:00Z"));
    let lost = lost.expect("the engine works").expect("five are lost");
    let expected = (utc("2026-06-05T09:00:00Z"), utc("2026-10-05T09:00:00Z"), Count::Exact(5));
    assert_eq!((lost.first, lost.last, lost.count), expected);
}

#[test]
fn rolling_is_for_schedules_of_few_fires_a_day() {
    let calendars = [calendar(&json!({"weekly": ["SUN"]}))];
    let roll = CalendarRoll::NextBusinessDay;
    for (job_type, config) in [
        (JobType::Cron, json!({"expression": "0 * * * *"})),
        (JobType::Interval, json!({"minutes": 359})),
        (JobType::Cron, json!({"any_of": [{"expression": "0 */6 * * *"}, {"expression": "30 1 * * *"}]})),
    ] {
        let source = source(job_type, &config, "UTC");
        let error = Timetable::parse(&TimetableSource { calendars: &calendars, roll, ..source });
        assert_eq!(error.expect_err("it is refused").field(), "calendar_roll", "{config}");
    }
    for (job_type, config) in
        [(JobType::Cron, json!({"expression": "0 */6 * * *"})), (JobType::Interval, json!({"hours": 6}))]
    {
        let source = source(job_type, &config, "UTC");
        let table = Timetable::parse(&TimetableSource { calendars: &calendars, roll, ..source });
        assert!(table.is_ok(), "{config}");
    }
}

#[test]
fn excluding_every_fire_is_an_error() {
    let week = json!({"weekly": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"], "except": ["2020-01-01"]});
    let sundays = json!({"weekly": ["SUN"]});
    for roll in CalendarRoll::ALL {
        let daily = cron("0 9 * * *", "UTC", &week, *roll);
        let error = daily.next_after(utc("2026-03-01T00:00:00Z")).expect_err("nothing fires");
        assert_eq!(error.field(), "calendars", "{roll}");
    }
    let often = cron("* * * * SUN", "UTC", &sundays, CalendarRoll::Skip);
    assert!(often.next_after(utc("2026-03-01T00:00:00Z")).is_err());
}

#[test]
fn a_long_freeze_is_passed_over() {
    let freeze = json!({"windows": [{"from": "2026-01-01T00:00:00", "until": "2029-06-01T00:00:00"}]});
    for (roll, expected) in [
        (CalendarRoll::Skip, "2029-06-01T00:30:00Z"),
        (CalendarRoll::NextBusinessDay, "2029-06-01T00:30:00Z"),
        (CalendarRoll::PreviousBusinessDay, "2029-06-01T00:30:00Z"),
    ] {
        assert_fires(&cron("30 */6 * * *", "UTC", &freeze, roll), "2026-01-01T00:00:00Z", &[expected]);
    }
}

#[test]
fn a_day_that_clocks_skip_is_no_free_day() {
    // Samoa had no 30 December 2011.
    let holidays = json!({"dates": ["2011-12-29", "2011-12-31"]});
    let next = cron("0 9 29 12 *", "Pacific/Apia", &holidays, CalendarRoll::NextBusinessDay);
    let fire = next.next_after(utc("2011-12-30T00:00:00Z")).expect("the engine works");
    assert!(fire.is_some_and(|fire| fire < utc("2012-01-02T00:00:00Z")), "{fire:?}");
}

#[test]
fn bounds_are_instants_that_can_be_stored() {
    let config = json!({"expression": "0 9 * * *"});
    let source = source(JobType::Cron, &config, "UTC");
    for at in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        let start = Timetable::parse(&TimetableSource { start_at: Some(at), ..source });
        assert_eq!(start.expect_err("it is refused").field(), "start_at");
        let end = Timetable::parse(&TimetableSource { end_at: Some(at), ..source });
        assert_eq!(end.expect_err("it is refused").field(), "end_at");
        assert_eq!(Preview::of(&source, at, 1).expect_err("it is refused").field(), "after");
    }
}

#[test]
fn preview_shows_moved_and_excluded_fires() {
    let config = json!({"expression": "0 9 5 * *"});
    let weekends = [calendar(&json!({"weekly": ["SAT", "SUN"]}))];
    let skip = TimetableSource { calendars: &weekends, ..source(JobType::Cron, &config, "UTC") };
    let next = TimetableSource { roll: CalendarRoll::NextBusinessDay, ..skip };
    let table = Timetable::parse(&next).expect("a timetable");
    let fires = preview(&table, &zone("UTC"), utc("2026-03-20T00:00:00Z"), 2).expect("fires");
    let shown: Vec<_> = fires.iter().map(|fire| (fire.utc, fire.moved_from)).collect();
    assert_eq!(
        shown,
        [
            (utc("2026-04-06T09:00:00Z"), Some(utc("2026-04-05T09:00:00Z"))),
            (utc("2026-05-05T09:00:00Z"), None)
        ]
    );
    let preview = Preview::of(&skip, utc("2026-03-20T00:00:00Z"), 3).expect("a preview");
    let said = preview.warnings.iter().find(|warning| warning.starts_with("calendars: 2 fire times"));
    assert!(said.is_some_and(|said| said.contains("2026-04-05T09:00:00Z")), "{:?}", preview.warnings);
}

#[test]
fn several_schedules_are_their_union() {
    let config = json!({"any_of": [
        {"expression": "0 9 * * MON-FRI"}, {"expression": "0 12 * * SAT"}, {"minute": "0", "hour": "9", "day_of_week": "4"},
    ]});
    let table = Timetable::from(super::parse(JobType::Cron, &config, "UTC").expect("a union"));
    assert_fires(
        &table,
        "2026-03-05T12:00:00Z",
        &["2026-03-06T09:00:00Z", "2026-03-07T12:00:00Z", "2026-03-09T09:00:00Z"],
    );
    let dates = json!({"any_of": [{"run_at": "2026-03-02T00:00:00Z"}, {"run_at": "2026-03-01T00:00:00Z"}]});
    let table = Timetable::from(super::parse(JobType::OneOff, &dates, "UTC").expect("a union"));
    let expected = ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"].map(utc);
    assert_eq!(fires(&table, "2020-01-01T00:00:00Z", 10), expected);
}

#[test]
fn a_wrong_member_of_a_union_is_pointed_at() {
    let refused = |job_type, config: Value| -> ScheduleError {
        super::parse(job_type, &config, "UTC").expect_err("it is refused")
    };
    let field = |job_type, config: Value| refused(job_type, config).field().to_owned();
    let good = json!({"expression": "0 9 * * *"});
    for (job_type, config, expected) in [
        (
            JobType::Cron,
            json!({"any_of": [good, {"expression": "60 * * * *"}]}),
            "schedule_config.any_of.1.expression",
        ),
        (JobType::Cron, json!({"any_of": [{"minute": "99"}]}), "schedule_config.any_of.0.minute"),
        (JobType::Cron, json!({"any_of": [{"any_of": [good]}]}), "schedule_config.any_of.0"),
        (JobType::Interval, json!({"any_of": [{"seconds": 0}]}), "schedule_config.any_of.0"),
        (JobType::Cron, json!({"any_of": ["0 9 * * *"]}), "schedule_config.any_of.0"),
        (JobType::Cron, json!({"any_of": []}), "schedule_config.any_of"),
        (JobType::Cron, json!({"any_of": good}), "schedule_config.any_of"),
        (JobType::Cron, json!({"any_of": vec![good.clone(); 21]}), "schedule_config.any_of"),
        (JobType::Manual, json!({"any_of": [{}]}), "schedule_config.any_of"),
        (JobType::Cron, json!({"any_of": [good], "expression": "* * * * *"}), "schedule_config"),
    ] {
        assert_eq!(field(job_type, config.clone()), expected, "{config}");
    }
}

#[test]
fn seconds_and_hashes_are_read_from_the_config() {
    let parse = |config: Value| super::parse(JobType::Cron, &config, "UTC");
    let every_ten = parse(json!({"expression": "*/10 * * * * *", "seconds": true})).expect("six fields");
    super::assert_fires(
        &every_ten,
        "2026-03-01T00:00:05Z",
        &["2026-03-01T00:00:10Z", "2026-03-01T00:00:20Z"],
    );
    let fields = parse(json!({"second": "30", "minute": "*"})).expect("the field form");
    super::assert_fires(&fields, "2026-03-01T00:00:30Z", &["2026-03-01T00:01:30Z"]);
    let error = parse(json!({"expression": "*/10 * * * * *"})).expect_err("it is refused");
    assert!(error.message().contains("\"seconds\": true"), "{error}");
    assert_eq!(
        parse(json!({"expression": "* * * * * *", "seconds": 1})).expect_err("it is refused").field(),
        "schedule_config.seconds"
    );
    let config = json!({"expression": "H H * * *"});
    let of = |key| {
        let source = source(JobType::Cron, &config, "UTC");
        Schedule::parse(&ScheduleSource { hash_key: key, ..source.schedule }).expect("a schedule")
    };
    assert_eq!(of("a"), of("a"));
    assert_ne!(of("a"), of("b"));
}

#[test]
fn always_skipped_times_are_rejected_quickly() {
    // Berlin's clocks skip this hour every year.
    let config = json!({"expression": "30 2 * 3 SUNL"});
    let berlin = source(JobType::Cron, &config, "Europe/Berlin").schedule;
    let skip = ScheduleSource { dst_gap: Some(DstGap::Skip), ..berlin };
    let error = Schedule::parse(&skip).expect_err("it is refused");
    assert!(error.message().contains("never fires") && error.field() == "schedule_config", "{error}");
    let shifted = Schedule::parse(&berlin).expect("it is moved");
    super::assert_fires(&shifted, "2026-01-01T00:00:00Z", &["2026-03-29T01:00:00Z", "2027-03-28T01:00:00Z"]);
    let schedule = super::cron_with("30 2 * 3 SUNL", "Europe/Berlin", Some(DstGap::Skip), None);
    assert_eq!(schedule.next_after(utc("2026-01-01T00:00:00Z")), Ok(None));
}

#[test]
fn nothing_is_planned_after_the_last_year() {
    let weekly = super::parse(JobType::Interval, &json!({"hours": 168}), "UTC").expect("an interval");
    let far = DateTime::from_timestamp(261_660_000_000, 0).expect("the year 10261");
    let plan = plan(&weekly, utc("2026-01-05T08:30:00Z"), far, MisfireRules::new(MisfirePolicy::FireOnce))
        .expect("a plan");
    assert!(plan.fires.iter().all(|fire| fire.year() <= 9999), "{:?}", plan.fires);
    assert_eq!(plan.next, None);
}

#[test]
fn step_of_one_equals_star() {
    for (text, same) in
        [("0 0 */01 * MON", "0 0 * * MON"), ("*/001 * * * *", "* * * * *"), ("H/01 * * * *", "* * * * *")]
    {
        assert_eq!(super::spec(text), super::spec(same), "{text}");
    }
}
