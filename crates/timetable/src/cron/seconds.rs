//! The second field, on top of an engine that knows whole minutes.
//!
//! The first matching second is in the current minute, if that matches and has a later one; else it
//! is the first second of the next matching minute.

use chrono::{NaiveDateTime, NaiveTime, TimeDelta, Timelike as _};

use super::{
    engine::{Engine, FIRST_DAY, Fault},
    values::ValueSet,
};

pub(super) fn next_after(
    engine: &Engine,
    seconds: ValueSet,
    after: NaiveDateTime,
) -> Result<Option<NaiveDateTime>, Fault> {
    let after = after.max(FIRST_DAY.and_time(NaiveTime::MIN));
    // Every minute has a second 0 and every second a nanosecond 0.
    let minute = after.with_second(0).and_then(|at| at.with_nanosecond(0)).unwrap_or(after);
    let later = u8::try_from(after.second()).ok().and_then(|second| seconds.first_from(second + 1));
    let first = seconds.first_from(0).unwrap_or_default();
    let from = if later.is_some() { minute - TimeDelta::seconds(1) } else { minute };
    Ok(engine.next_after(from)?.map(|found| {
        let second = later.filter(|_| found == minute).unwrap_or(first);
        found + TimeDelta::seconds(second.into())
    }))
}
