//! The crontab dialect.

use chrono::{DateTime, Utc};
use serde_json::json;

use super::super::{JobType, Schedule, ScheduleSource};

#[test]
fn weekdays_at_midnight_cross_the_change_of_clocks() {
    let config = json!({"expression": "0 0 * * 1-5"});
    let schedule = Schedule::parse(&ScheduleSource {
        job_type: JobType::Cron,
        config: &config,
        timezone: "Europe/Berlin",
        dst_gap: None,
        dst_overlap: None,
        created_at: DateTime::<Utc>::UNIX_EPOCH,
    })
    .expect("a schedule");
    let mut at: DateTime<Utc> = "2026-03-26T12:00:00Z".parse().expect("an instant");
    for expected in
        ["2026-03-26T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z", "2026-03-31T22:00:00Z"]
    {
        at = schedule.next_after(at).expect("no fault").expect("a fire");
        assert_eq!(at, expected.parse::<DateTime<Utc>>().expect("an instant"));
    }
}
