//! Daylight saving on well-known schedules, zone by zone.

use super::{
    super::{DstGap, DstOverlap},
    assert_fires, cron, cron_with,
};

#[test]
fn a_fixed_time_in_a_gap_fires_at_the_first_instant_after_it() {
    let berlin = cron("30 2 * * *", "Europe/Berlin");
    assert_fires(&berlin, "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    let new_york = cron("15,45 2 * * *", "America/New_York");
    assert_fires(&new_york, "2026-03-08T00:00:00Z", &["2026-03-08T07:00:00Z", "2026-03-09T06:15:00Z"]);
}

#[test]
fn shifted_fire_on_regular_fire_is_one() {
    let schedule = cron("30,0 2,3 * * *", "Europe/Berlin");
    let expected = ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"];
    assert_fires(&schedule, "2026-03-28T12:00:00Z", &expected);
}

#[test]
fn a_fixed_time_that_occurs_twice_fires_at_its_first_pass() {
    let berlin = cron("30 2 * * *", "Europe/Berlin");
    assert_fires(&berlin, "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    let new_york = cron("30 1 * * *", "America/New_York");
    assert_fires(&new_york, "2026-10-31T12:00:00Z", &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
    assert_fires(&new_york, "2026-11-01T05:45:00Z", &["2026-11-02T06:30:00Z"]);
    assert_fires(&new_york, "2026-11-01T06:10:00Z", &["2026-11-02T06:30:00Z"]);
}

#[test]
fn a_wildcard_follows_elapsed_time() {
    let quarters = cron("*/15 * * * *", "America/New_York");
    // In autumn both passes fire; in the second pass, the result is not in the past.
    let autumn =
        ["2024-11-03T06:15:00Z", "2024-11-03T06:30:00Z", "2024-11-03T06:45:00Z", "2024-11-03T07:00:00Z"];
    assert_fires(&quarters, "2024-11-03T06:05:00Z", &autumn);
    let spring = ["2024-03-10T06:45:00Z", "2024-03-10T07:00:00Z", "2024-03-10T07:15:00Z"];
    assert_fires(&quarters, "2024-03-10T06:30:00Z", &spring);
    let every_other_hour = cron("0 */2 * * *", "America/New_York");
    assert_fires(
        &every_other_hour,
        "2024-03-10T04:00:00Z",
        &["2024-03-10T05:00:00Z", "2024-03-10T08:00:00Z"],
    );
}

#[test]
fn a_job_can_choose_otherwise() {
    let skip = cron_with("30 2 * * *", "Europe/Berlin", Some(DstGap::Skip), None);
    assert_fires(&skip, "2026-03-28T12:00:00Z", &["2026-03-30T00:30:00Z"]);
    let second = cron_with("30 2 * * *", "Europe/Berlin", None, Some(DstOverlap::Second));
    assert_fires(&second, "2026-10-24T12:00:00Z", &["2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]);
    let both = cron_with("30 2 * * *", "Europe/Berlin", None, Some(DstOverlap::Both));
    assert_fires(
        &both,
        "2026-10-24T12:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"],
    );
    let once = cron_with("*/30 * * * *", "Europe/Berlin", Some(DstGap::Shift), Some(DstOverlap::First));
    assert_fires(&once, "2026-10-25T00:20:00Z", &["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"]);
    assert_fires(
        &once,
        "2026-03-29T00:20:00Z",
        &["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"],
    );
}

#[test]
fn half_an_hour_is_a_transition_too() {
    // Lord Howe puts clocks back from 02:00 to 01:30, and forward from 02:00 to 02:30.
    let back = cron("45 1 * * *", "Australia/Lord_Howe");
    assert_fires(&back, "2025-04-05T12:00:00Z", &["2025-04-05T14:45:00Z", "2025-04-06T15:15:00Z"]);
    let forward = cron("15 2 * * *", "Australia/Lord_Howe");
    assert_fires(&forward, "2025-10-04T12:00:00Z", &["2025-10-04T15:30:00Z", "2025-10-05T15:15:00Z"]);
}

#[test]
fn two_hours_are_a_transition_too() {
    // Troll goes from 01:00 to 03:00 and from 03:00 back to 01:00.
    let forward = cron("30 1,2 * * *", "Antarctica/Troll");
    assert_fires(&forward, "2025-03-29T12:00:00Z", &["2025-03-30T01:00:00Z", "2025-03-30T23:30:00Z"]);
    assert_fires(
        &forward,
        "2025-10-25T12:00:00Z",
        &["2025-10-25T23:30:00Z", "2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"],
    );
}

#[test]
fn a_day_without_midnight_still_has_its_daily_fire() {
    // Santiago and Beirut put clocks forward at midnight: the day begins at one.
    let santiago = cron("0 0 * * *", "America/Santiago");
    assert_fires(&santiago, "2025-09-06T12:00:00Z", &["2025-09-07T04:00:00Z", "2025-09-08T03:00:00Z"]);
    let beirut = cron("0 0 * * *", "Asia/Beirut");
    assert_fires(&beirut, "2025-03-29T12:00:00Z", &["2025-03-29T22:00:00Z", "2025-03-30T21:00:00Z"]);
    let minutes = cron("*/30 0 * * *", "America/Santiago");
    assert_fires(&minutes, "2025-09-06T12:00:00Z", &["2025-09-08T03:00:00Z", "2025-09-08T03:30:00Z"]);
}

#[test]
fn a_midnight_that_occurs_twice_fires_once() {
    // Santiago goes from 24:00 back to 23:00; Havana from 01:00 back to midnight.
    let santiago = cron("30 23 * * *", "America/Santiago");
    assert_fires(&santiago, "2025-04-05T12:00:00Z", &["2025-04-06T02:30:00Z", "2025-04-07T03:30:00Z"]);
    let havana = cron("0 0 * * *", "America/Havana");
    assert_fires(&havana, "2025-11-01T12:00:00Z", &["2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"]);
}

#[test]
fn a_day_that_does_not_exist_is_one_long_gap() {
    // Samoa had no 30 December 2011.
    let daily = cron("0 12 * * *", "Pacific/Apia");
    assert_fires(
        &daily,
        "2011-12-29T00:00:00Z",
        &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
    );
    let the_thirtieth = cron("0 12 30 * *", "Pacific/Apia");
    assert_fires(&the_thirtieth, "2011-12-01T00:00:00Z", &["2011-12-30T10:00:00Z", "2012-01-29T22:00:00Z"]);
    let hourly = cron("0 * * * *", "Pacific/Apia");
    assert_fires(
        &hourly,
        "2011-12-30T08:30:00Z",
        &["2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"],
    );
}

#[test]
fn clocks_that_follow_the_moon_are_followed() {
    // Morocco, Ramadan 2025: back on 23 February at 03:00, forward on 6 April at 02:00.
    let schedule = cron("30 2 * * *", "Africa/Casablanca");
    assert_fires(&schedule, "2025-02-22T12:00:00Z", &["2025-02-23T01:30:00Z", "2025-02-24T02:30:00Z"]);
    assert_fires(&schedule, "2025-04-05T12:00:00Z", &["2025-04-06T02:00:00Z", "2025-04-07T01:30:00Z"]);
}
