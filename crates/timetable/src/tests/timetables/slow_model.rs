//! Timetables against a slow model that lists every nominal fire.

use chrono::{DateTime, TimeDelta, Utc};
use proptest::{prelude::*, sample::select};
use serde_json::Value;

use super::super::{utc, zone};
use super::{calendar, cron};
use crate::{Calendar, CalendarRoll, Schedule, Zone, timetable::LONGEST_ROLL};

const DEFINITIONS: [&str; 5] = [
    r#"{"weekly": ["SAT", "SUN"]}"#,
    r#"{"weekly": ["SAT", "SUN"], "dates": ["2026-03-27", "2026-03-30/2026-04-02", "2026-10-26"]}"#,
    r#"{"weekly": [{"days": ["SUN", "MON"], "from": "01:00", "until": "10:00"}], "yearly": ["03-20/03-28"]}"#,
    r#"{"windows": [{"from": "2026-03-25T12:00:00", "until": "2026-04-08T09:30:00"}], "timezone": "America/New_York"}"#,
    r#"{"dates": ["2026-03-01/2026-05-20"], "except": ["2026-03-29", "2026-04-15"]}"#,
];

/// A timetable of the slow model, which moves every nominal fire around.
struct SlowTimetable<'a> {
    /// The schedule without the calendar.
    nominal: &'a Schedule,
    calendar: Calendar,
    /// The zone of the schedule.
    zone: Zone,
    roll: CalendarRoll,
}

impl SlowTimetable<'_> {
    /// Every fire in `(after, until]`, found from far outside.
    fn fires(&self, after: DateTime<Utc>, until: DateTime<Utc>) -> Vec<DateTime<Utc>> {
        let Self { nominal, calendar, zone: job_zone, roll } = self;
        let excluded = |at: DateTime<Utc>| {
            let zone = calendar.zone().unwrap_or(job_zone);
            calendar.exclusion_at(at.naive_utc() + zone.offset_at(at)).is_some()
        };
        let moved = |fire: DateTime<Utc>| -> Option<DateTime<Utc>> {
            let step = match roll {
                CalendarRoll::Skip => return Some(fire).filter(|fire| !excluded(*fire)),
                CalendarRoll::NextBusinessDay => 1,
                CalendarRoll::PreviousBusinessDay => -1,
            };
            let local = fire.naive_utc() + job_zone.offset_at(fire);
            (0..=LONGEST_ROLL).find_map(|days| {
                let wanted = local + TimeDelta::days(days * step);
                // No clock of the zones changes between 05:00 and 12:00.
                let at = (wanted - job_zone.offset_at(wanted.and_utc())).and_utc();
                Some(if days == 0 { fire } else { at }).filter(|at| !excluded(*at))
            })
        };
        let margin = TimeDelta::days(LONGEST_ROLL + 2);
        let mut at = after - margin;
        let mut found = std::collections::BTreeSet::new();
        while let Some(fire) =
            nominal.next_after(at).expect("the engine works").filter(|fire| *fire <= until + margin)
        {
            found.extend(moved(fire).filter(|moved| *moved > after && *moved <= until));
            at = fire;
        }
        found.into_iter().collect()
    }
}

/// The settings of a timetable of the model.
#[derive(Debug)]
struct Settings {
    expression: &'static str,
    timezone: &'static str,
    /// The definition of its calendar.
    definition: &'static str,
    roll: CalendarRoll,
}

fn settings() -> impl Strategy<Value = Settings> {
    let expressions = select(vec![
        "0 9 * * *",
        "30 5,11 * * *",
        "15 6 */3 * *",
        "0 5,8,11,12 * * MON",
        "0 8 1,15,29 * *",
        "20 7 * * SUN",
    ]);
    let timezones = select(vec!["UTC", "Europe/Berlin", "America/New_York"]);
    let rolls = select(CalendarRoll::ALL.to_vec());
    (expressions, timezones, select(DEFINITIONS.to_vec()), rolls).prop_map(
        |(expression, timezone, definition, roll)| Settings { expression, timezone, definition, roll },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_timetable_fires_as_the_slow_model_does(
        settings in settings(),
        minutes in 0_i64..200_000,
    ) {
        let Settings { expression, timezone, definition, roll } = settings;
        let definition: Value = serde_json::from_str(definition).expect("a definition");
        let table = cron(expression, timezone, &definition, roll);
        let after = utc("2026-02-01T00:00:00Z") + TimeDelta::minutes(minutes);
        let until = after + TimeDelta::days(25);
        let calendar = calendar(&definition);
        let slow = SlowTimetable { nominal: table.schedule(), calendar, zone: zone(timezone), roll };
        let expected = slow.fires(after, until);
        let mut found = Vec::new();
        let mut at = after;
        loop {
            let Ok(next) = table.next_after(at) else {
                prop_assert!(expected.is_empty(), "the search gave up, and the model finds {expected:?}");
                break;
            };
            let Some(fire) = next.filter(|fire| *fire <= until) else { break };
            prop_assert!(fire > at);
            found.push(fire);
            at = fire;
        }
        prop_assert_eq!(found, expected);
    }
}
