//! The times of day of an expression in words.
//!
//! Knows minutes and hours only as ascending lists; which days they are on is `dates`'. Pure and total.

use super::{
    super::values::{Kind, ValueSet},
    LISTED, enumeration, regular, values,
};

/// Up to this many windows of a day are listed.
const WINDOWS: usize = 3;

pub(super) fn times(minutes: &[u8], hours: &[u8]) -> String {
    let all_hours = hours.len() == 24;
    let step = step_through_the_hour(minutes);
    match (step, minutes) {
        (Some(1), _) if all_hours => return "Every minute".to_owned(),
        (Some(step), [0, ..]) if all_hours => return format!("Every {step} minutes"),
        (None, [0]) if all_hours => return "Every hour on the hour".to_owned(),
        _ => {}
    }
    if let (Some(step), [first, .., last]) = (step, minutes)
        && minutes.len() > 2
        && let Some(windows) = windows(hours, *first, *last)
    {
        let every = if step == 1 { "minute".to_owned() } else { format!("{step} minutes") };
        return format!("Every {every} {windows}");
    }
    if minutes.len() * hours.len() <= LISTED {
        let clock = hours.iter().flat_map(|hour| minutes.iter().map(|minute| time(*hour, *minute)));
        return format!("At {}", enumeration(&clock.collect::<Vec<_>>(), "and"));
    }
    if let (Some(step), [first, .., last]) = (step, minutes)
        && !all_hours
        && let Some(windows) = windows(hours, *first, *last)
    {
        return format!("Every {step} minutes {windows}");
    }
    if let ([minute], Some((first, last, step)), false) = (minutes, regular(hours), all_hours) {
        let every = if step == 1 { "hour".to_owned() } else { format!("{step} hours") };
        return format!("Every {every} from {} to {}", time(first, *minute), time(last, *minute));
    }
    let hours = if all_hours { "every hour".to_owned() } else { values("hour", hours) };
    if minutes.len() == 60 {
        return format!("Every minute of {hours}");
    }
    format!("At {} of {hours}", values("minute", minutes))
}

fn time(hour: u8, minute: u8) -> String {
    format!("{hour:02}:{minute:02}")
}

/// The step of minutes that are as far apart across the full hour as within it.
fn step_through_the_hour(minutes: &[u8]) -> Option<u8> {
    let (&first, &second) = (minutes.first()?, minutes.get(1)?);
    let step = second - first;
    let mut expected = ValueSet::default();
    expected.insert_steps(first, Kind::Minute.max(), step);
    let through = 60 % step == 0 && first < step && expected.iter().eq(minutes.iter().copied());
    through.then_some(step)
}

/// The hours as windows of the day, from the first minute of their first hour to the last of their last.
fn windows(hours: &[u8], first: u8, last: u8) -> Option<String> {
    let runs: Vec<&[u8]> = hours.chunk_by(|left, right| left + 1 == *right).collect();
    let window = |run: &&[u8]| match run {
        [] => String::new(),
        [only] => format!("from {} to {}", time(*only, first), time(*only, last)),
        [from, .., to] => format!("from {} to {}", time(*from, first), time(*to, last)),
    };
    (runs.len() <= WINDOWS).then(|| enumeration(&runs.iter().map(window).collect::<Vec<_>>(), "and"))
}
