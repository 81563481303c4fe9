//! Bytes to a schedule, an instant and an outage.
//!
//! An input has one byte per choice and then text. A choice is the distance of its byte from `0`,
//! modulo the number of options, so seeds can be handwritten (README.md has the table). The text is
//! put into the chosen shape, so most inputs reach a valid schedule.

use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use chrono::{DateTime, Datelike, TimeDelta, Utc};
use sched_timetable::{DstGap, DstOverlap, JobType, MisfirePolicy, Zone};
use serde_json::{Map, Value, json};

/// Zones with unusual clock changes. The option after the last is the first line of the text.
const ZONES: [&str; 34] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Antarctica/Casey",
    "America/Santiago",
    "Asia/Beirut",
    "Africa/Cairo",
    "America/Havana",
    "America/Nuuk",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Pacific/Kiritimati",
    "Asia/Pyongyang",
    "America/Caracas",
    "Asia/Kathmandu",
    "Africa/Monrovia",
    "Europe/Dublin",
    "Asia/Gaza",
    "America/Vancouver",
    "America/Scoresbysund",
    "Asia/Manila",
    "America/Juneau",
    "America/St_Johns",
    "Antarctica/Macquarie",
    "Asia/Tehran",
    "Pacific/Chatham",
    "Europe/Lisbon",
    "Africa/Khartoum",
    "Etc/GMT+12",
    "Etc/GMT-14",
];

/// The option after the last is any instant, in eight bytes.
const INSTANTS: [&str; 12] = [
    "2026-01-15T12:00:00Z",
    "2026-07-15T12:00:00Z",
    "2011-12-15T00:00:00Z",
    "1993-08-01T00:00:00Z",
    "2037-07-01T00:00:00Z",
    "2096-02-28T23:59:59.999999Z",
    "1970-01-01T00:00:00Z",
    "1883-01-01T00:00:00Z",
    "1844-12-01T00:00:00Z",
    "0000-12-31T00:00:00Z",
    "9959-12-31T23:59:00Z",
    "9999-06-01T00:00:00Z",
];

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// In microseconds. The option after the last is any number of seconds, in four bytes.
const NUDGES: [i64; 13] =
    [0, -1, 1, -SECOND, -HOUR / 2, -HOUR, -3 * HOUR / 2, -3 * HOUR, HOUR / 2, HOUR, -DAY, DAY, HOUR / 60];

/// In microseconds. The option after the last is any number of seconds, in four bytes.
const OUTAGES: [i64; 11] = [
    0,
    -1,
    60 * SECOND,
    60 * SECOND + 1,
    HOUR,
    3 * HOUR / 2,
    DAY,
    3 * DAY,
    40 * DAY,
    3650 * DAY,
    300 * 365 * DAY,
];

const POLICIES: [MisfirePolicy; 7] = [
    MisfirePolicy::Skip,
    MisfirePolicy::FireOnce,
    MisfirePolicy::FireAll { cap: 1 },
    MisfirePolicy::FireAll { cap: 3 },
    MisfirePolicy::FireAll { cap: 40 },
    MisfirePolicy::FireAll { cap: 300 },
    MisfirePolicy::FireAll { cap: u32::MAX },
];

const GRACES: [Option<Duration>; 7] = [
    None,
    Some(Duration::ZERO),
    Some(Duration::from_micros(1)),
    Some(Duration::from_secs(60)),
    Some(Duration::from_secs(7200)),
    Some(Duration::from_secs(3 * 86_400)),
    Some(Duration::MAX),
];

pub(crate) const HASH_KEY: &str = "00000000-0000-0000-0000-000000000000/nightly";

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) job_type: JobType,
    pub(crate) config: Value,
    pub(crate) zone: String,
    pub(crate) gap: Option<DstGap>,
    pub(crate) overlap: Option<DstOverlap>,
    /// The start, or 1970 if no database's clock can show the start.
    pub(crate) created_at: DateTime<Utc>,
    /// The instant from which fires are computed.
    pub(crate) start: DateTime<Utc>,
    /// Whether the cursor is the start instead of the first fire after it.
    pub(crate) odd_cursor: bool,
    pub(crate) outage: TimeDelta,
    pub(crate) policy: MisfirePolicy,
    pub(crate) grace: Option<Duration>,
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let shape = pick(u, Shape::ALL.len())?;
        let zone = ZONES.get(pick(u, ZONES.len() + 1)?);
        let gap = optional(u, DstGap::ALL)?;
        let overlap = optional(u, DstOverlap::ALL)?;
        let instant = match INSTANTS.get(pick(u, INSTANTS.len() + 1)?) {
            Some(text) => text.parse().map_err(|_wrong_in_the_list| arbitrary::Error::IncorrectFormat)?,
            None => any_instant(u.arbitrary()?),
        };
        let changes = pick(u, 3)?;
        let nudge = amount(u, &NUDGES)?;
        let odd_cursor = pick(u, 2)? == 1;
        let outage = amount(u, &OUTAGES)?;
        let policy = POLICIES.get(pick(u, POLICIES.len())?).copied().unwrap_or_default();
        let grace = GRACES.get(pick(u, GRACES.len())?).copied().flatten();
        let text = String::from_utf8_lossy(u.bytes(u.len())?).into_owned();
        let (zone, text) = match (zone, text.split_once('\n')) {
            (Some(zone), _) => ((*zone).to_owned(), text.as_str()),
            (None, Some((zone, text))) => (zone.to_owned(), text),
            (None, None) => (text.clone(), "{}"),
        };
        let (job_type, config) = Shape::ALL.get(shape).unwrap_or(&Shape::Expression).read(text);
        let mut start: DateTime<Utc> = instant;
        for _ in 0..changes {
            start = change_after(&zone, start).unwrap_or(start);
        }
        let start = start.checked_add_signed(nudge).unwrap_or(start);
        let created_at = if (0..=9999).contains(&start.year()) { start } else { DateTime::UNIX_EPOCH };
        Ok(Self {
            job_type,
            config,
            created_at,
            zone,
            gap,
            overlap,
            start,
            odd_cursor,
            outage,
            policy,
            grace,
        })
    }
}

/// The meaning of the text.
#[derive(Clone, Copy)]
enum Shape {
    Expression,
    /// The fields of a cron schedule from the minute on, separated by `|`; empty ones are omitted.
    Fields,
    Period,
    RunAt,
    /// JSON, or otherwise plain text.
    Json(JobType),
}

impl Shape {
    const ALL: [Self; 8] = [
        Self::Expression,
        Self::Fields,
        Self::Period,
        Self::RunAt,
        Self::Json(JobType::Cron),
        Self::Json(JobType::Interval),
        Self::Json(JobType::OneOff),
        Self::Json(JobType::Manual),
    ];

    fn read(self, text: &str) -> (JobType, Value) {
        match self {
            Self::Expression => (JobType::Cron, json!({ "expression": text })),
            Self::Fields => {
                let names = ["minute", "hour", "day", "month", "day_of_week"];
                (
                    JobType::Cron,
                    object(names.into_iter().zip(text.split('|')).filter(|(_, field)| !field.is_empty())),
                )
            }
            Self::Period => {
                let names = ["weeks", "days", "hours", "minutes", "seconds", "anchor"];
                (JobType::Interval, object(names.into_iter().zip(text.split_whitespace())))
            }
            Self::RunAt => (JobType::OneOff, json!({ "run_at": text })),
            Self::Json(job_type) => {
                (job_type, serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())))
            }
        }
    }
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let value = |text: &str| text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from);
    Value::Object(fields.map(|(name, text)| (name.to_owned(), value(text))).collect::<Map<_, _>>())
}

fn pick(u: &mut Unstructured<'_>, count: usize) -> Result<usize> {
    Ok(usize::from(u.arbitrary::<u8>()?.wrapping_sub(b'0')) % count)
}

fn optional<T: Copy>(u: &mut Unstructured<'_>, options: &[T]) -> Result<Option<T>> {
    Ok(pick(u, options.len() + 1)?.checked_sub(1).and_then(|option| options.get(option)).copied())
}

fn amount(u: &mut Unstructured<'_>, options: &[i64]) -> Result<TimeDelta> {
    Ok(match options.get(pick(u, options.len() + 1)?) {
        Some(micros) => TimeDelta::microseconds(*micros),
        None => TimeDelta::seconds(i64::from(u.arbitrary::<i32>()?)),
    })
}

/// Microseconds since 1970, limited to the representable range.
fn any_instant(micros: i64) -> DateTime<Utc> {
    let end = if micros < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp_micros(micros).unwrap_or(end)
}

/// The next clock change of a zone within 13 months: the day by steps, the second by bisection.
fn change_after(zone: &str, start: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let zone = Zone::parse(zone).ok()?;
    let offset = zone.offset_at(start);
    let days = (0..400).map(|day| start.checked_add_signed(TimeDelta::days(day)));
    let (mut before, mut changed) = (start, days.flatten().find(|day| zone.offset_at(*day) != offset)?);
    while changed - before > TimeDelta::seconds(1) {
        let middle = before + TimeDelta::seconds(((changed - before).num_seconds() + 1) / 2);
        if zone.offset_at(middle) == offset { before = middle } else { changed = middle }
    }
    Some(changed)
}
