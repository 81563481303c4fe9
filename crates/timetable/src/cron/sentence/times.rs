//! The times of day of an expression in words.
//!
//! Seconds appear only if they are other than 0 alone, so that a schedule has the same sentence
//! with and without a field for them.

use super::{LISTED, enumeration, regular, values};

const WINDOWS: usize = 3;

pub(super) struct Times {
    pub(super) seconds: Vec<u8>,
    pub(super) minutes: Vec<u8>,
    pub(super) hours: Vec<u8>,
}

impl Times {
    pub(super) fn all_hours(&self) -> bool {
        self.hours.len() == 24
    }

    pub(super) fn phrase(&self) -> String {
        if self.on_whole_minutes() { self.minutes_phrase() } else { self.seconds_phrase() }
    }

    fn on_whole_minutes(&self) -> bool {
        self.seconds == [0]
    }

    fn minutes_phrase(&self) -> String {
        let step = step_through(&self.minutes);
        match (step, self.minutes.as_slice()) {
            (Some(1), _) if self.all_hours() => return "Every minute".to_owned(),
            (Some(step), [0, ..]) if self.all_hours() => return format!("Every {step} minutes"),
            (None, [0]) if self.all_hours() => return "Every hour on the hour".to_owned(),
            _ => {}
        }
        self.minutes_on_the_clock().unwrap_or_else(|| {
            let hours = self.hours_of_day();
            if step == Some(1) {
                return format!("Every minute of {hours}");
            }
            format!("At {} of {hours}", values("minute", &self.minutes))
        })
    }

    fn seconds_phrase(&self) -> String {
        let step = step_through(&self.seconds).filter(|_| self.seconds.starts_with(&[0]));
        let every = step.map(|step| every("second", step));
        let always = self.minutes.len() == 60 && self.all_hours();
        if let Some(every) = every.as_ref().filter(|_| always) {
            return every.clone();
        }
        let on_the_clock = if always { None } else { self.seconds_on_the_clock() };
        on_the_clock.unwrap_or_else(|| {
            let minutes = if self.minutes.len() == 60 {
                "every minute".to_owned()
            } else {
                values("minute", &self.minutes)
            };
            let of_hours = if always { String::new() } else { format!(" of {}", self.hours_of_day()) };
            match every {
                Some(every) => format!("{every} in {minutes}{of_hours}"),
                None => format!("At {} of {minutes}{of_hours}", values("second", &self.seconds)),
            }
        })
    }

    fn hours_of_day(&self) -> String {
        if self.all_hours() { "every hour".to_owned() } else { values("hour", &self.hours) }
    }

    fn minutes_on_the_clock(&self) -> Option<String> {
        let windows = |at_least| {
            let step = step_through(&self.minutes).filter(|_| self.minutes.len() >= at_least)?;
            Some(format!("{} {}", every("minute", step), self.windows(true)?))
        };
        if let Some(windows) = windows(3) {
            return Some(windows);
        }
        if let Some(list) = self.list() {
            return Some(list);
        }
        if self.all_hours() {
            return None;
        }
        if let Some(windows) = windows(2) {
            return Some(windows);
        }
        let ([minute], [second], Some((first, last, step))) =
            (self.minutes.as_slice(), self.seconds.as_slice(), regular(&self.hours))
        else {
            return None;
        };
        let (first, last) = (self.time(first, *minute, *second), self.time(last, *minute, *second));
        Some(format!("{} from {first} to {last}", every("hour", step)))
    }

    fn seconds_on_the_clock(&self) -> Option<String> {
        if self.seconds.len() == 1 {
            return self.minutes_on_the_clock();
        }
        let windows = |at_least| {
            let step = step_through(&self.seconds).filter(|_| self.seconds.len() >= at_least)?;
            let together = self.minutes.iter().zip(self.minutes.iter().skip(1)).all(|(a, b)| a + 1 == *b);
            let windows = if together { self.windows(self.minutes.len() == 60)? } else { return None };
            Some(format!("{} {windows}", every("second", step)))
        };
        windows(3).or_else(|| self.list()).or_else(|| windows(2))
    }

    fn list(&self) -> Option<String> {
        if self.hours.len() * self.minutes.len() * self.seconds.len() > LISTED {
            return None;
        }
        let mut times = Vec::new();
        for hour in &self.hours {
            for minute in &self.minutes {
                times.extend(self.seconds.iter().map(|second| self.time(*hour, *minute, *second)));
            }
        }
        Some(format!("At {}", enumeration(&times, "and")))
    }

    /// Hours as windows of the day, from the first time of the first hour to the last of the last.
    /// Successive hours are one window if the times go on `through` the full hour.
    fn windows(&self, through: bool) -> Option<String> {
        let ends = |times: &[u8]| Some((*times.first()?, *times.last()?));
        let (minutes, seconds) = (ends(&self.minutes)?, ends(&self.seconds)?);
        let runs: Vec<&[u8]> = self.hours.chunk_by(|left, right| through && left + 1 == *right).collect();
        if runs.len() > WINDOWS {
            return None;
        }
        let window = |run: &[u8]| {
            let (from, to) = ends(run)?;
            let (from, to) = (self.time(from, minutes.0, seconds.0), self.time(to, minutes.1, seconds.1));
            Some(format!("from {from} to {to}"))
        };
        let windows: Vec<String> = runs.into_iter().filter_map(window).collect();
        Some(enumeration(&windows, "and"))
    }

    fn time(&self, hour: u8, minute: u8, second: u8) -> String {
        if self.on_whole_minutes() {
            format!("{hour:02}:{minute:02}")
        } else {
            format!("{hour:02}:{minute:02}:{second:02}")
        }
    }
}

fn every(unit: &str, step: u8) -> String {
    if step == 1 { format!("Every {unit}") } else { format!("Every {step} {unit}s") }
}

/// The step of values with the same distance across the full hour or minute as within it.
fn step_through(values: &[u8]) -> Option<u8> {
    let (&first, &second) = (values.first()?, values.get(1)?);
    let step = second - first;
    let through = 60 % step == 0 && first < step;
    (through && (first..60).step_by(usize::from(step)).eq(values.iter().copied())).then_some(step)
}
