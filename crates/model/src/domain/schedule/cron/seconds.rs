//! The second field, laid over an engine that knows whole minutes.
//!
//! The first matching second is in the minute that was asked about, if that minute matches and has a later one, else
//! it is the first second of the next matching minute. Pure; at most two questions to the engine, whose faults are
//! passed on.

use chrono::{NaiveDateTime, NaiveTime, TimeDelta, Timelike as _};

use super::{
    engine::{Engine, FIRST_DAY, Fault},
    values::ValueSet,
};

/// The first of the `seconds` of a minute that matches, later than `after`.
pub(super) fn next_after(
    engine: &Engine,
    seconds: ValueSet,
    after: NaiveDateTime,
) -> Result<Option<NaiveDateTime>, Fault> {
    let after = after.max(FIRST_DAY.and_time(NaiveTime::MIN));
    // Every minute has a second 0 and every second a nanosecond 0.
    let minute = after.with_second(0).and_then(|at| at.with_nanosecond(0)).unwrap_or(after);
    let Some(found) = engine.next_after(minute - TimeDelta::seconds(1))? else { return Ok(None) };
    let later = |minute: NaiveDateTime| {
        seconds.iter().map(|second| minute + TimeDelta::seconds(second.into())).find(|at| *at > after)
    };
    if let Some(at) = later(found) {
        return Ok(Some(at));
    }
    Ok(engine.next_after(minute)?.and_then(later))
}
