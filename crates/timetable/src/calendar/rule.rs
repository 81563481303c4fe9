//! An RFC 5545 rule of a calendar: the lines `DTSTART`, `RRULE`, `RDATE`, `EXDATE`, in local time.
//!
//! `frequency` parses the parts of an `RRULE`, `recurrence` expands them. A rule that names a zone
//! is rejected, because its tables would differ from those of the schedule.
//!
//! Two things go beyond the RFC, because real files differ from it: an `EXDATE` that is a date
//! removes the occurrences that begin on that day, and an `UNTIL` that is a date includes that day.
//! A `DTSTART` that its own `RRULE` does not match is not an occurrence. Pure.

use chrono::{Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};

use super::{
    super::error::{QuotedText, ScheduleError},
    frequency::Frequency,
    notation::{Moment, moment, no_zone},
    recurrence::{self, MAX_OCCURRENCES},
    stretches::{Stretch, midnight},
};

/// Rules are expanded up to the end of this year.
pub(in super::super) const LAST_YEAR: i32 = 2100;

/// Earliest start of a rule: bounds the number of searched days.
const FIRST_YEAR: i32 = 1900;

#[derive(Debug)]
pub(super) struct Rule {
    occurrences: Vec<NaiveDateTime>,
    length: TimeDelta,
}

struct Lines {
    start: NaiveDateTime,
    whole_days: bool,
    frequency: Option<Frequency>,
    extra: Vec<NaiveDateTime>,
    without: Vec<Moment>,
}

impl Rule {
    /// `length` is that of each occurrence, with the field it comes from.
    pub(super) fn parse(
        field: &str,
        text: &str,
        length: Option<(&str, TimeDelta)>,
    ) -> Result<Self, ScheduleError> {
        let lines = Lines::parse(field, text)?;
        let day = TimeDelta::days(1);
        let length = match length {
            None => None,
            Some((field, length)) if lines.whole_days && length.num_seconds() % day.num_seconds() != 0 => {
                return Err(ScheduleError::invalid(
                    field,
                    format!(
                        "is {} hours, but the rule's DTSTART is a date; give whole days such as `P1D`, or a DTSTART \
                         with a time",
                        length.num_hours()
                    ),
                ));
            }
            Some((_, length)) => Some(length),
        };
        let mut occurrences = lines.occurrences(field)?;
        if length.is_none() {
            for at in &mut occurrences {
                *at = midnight(at.date());
            }
            occurrences.dedup();
        }
        Ok(Self { occurrences, length: length.unwrap_or(day) })
    }

    pub(super) fn count(&self) -> usize {
        self.occurrences.len()
    }

    pub(super) fn stretches(&self) -> impl Iterator<Item = Stretch> {
        self.occurrences
            .iter()
            .filter_map(|from| Some(Stretch { from: *from, until: from.checked_add_signed(self.length)? }))
    }
}

/// The values of a rule's lines, before the check of one against the other.
struct LineValues<'a> {
    start: Moment,
    rule: Option<&'a str>,
    extra: Vec<Moment>,
    without: Vec<Moment>,
}

impl LineValues<'_> {
    fn check(self, field: &str) -> Result<Lines, ScheduleError> {
        let Self { start, rule, extra, without } = self;
        let (start, whole_days) = local(start);
        if !(FIRST_YEAR..=LAST_YEAR).contains(&start.year()) {
            return Err(ScheduleError::invalid(
                field,
                format!(
                    "starts in the year {}; DTSTART must be from {FIRST_YEAR} to {LAST_YEAR}",
                    start.year()
                ),
            ));
        }
        let frequency = rule.map(|rule| Frequency::parse(field, rule, whole_days)).transpose()?;
        let extra = extra.into_iter().map(|moment| match local(moment) {
            (at, days) if days == whole_days => Ok(at),
            _ => Err(ScheduleError::invalid(
                field,
                "has dates in RDATE and a time in DTSTART, or the reverse; write both alike",
            )),
        });
        Ok(Lines { start, whole_days, frequency, extra: extra.collect::<Result<_, _>>()?, without })
    }
}

impl Lines {
    fn parse(field: &str, text: &str) -> Result<Self, ScheduleError> {
        let wrong = |message: String| ScheduleError::invalid(field, message);
        let text = unfolded(text);
        let (mut start, mut rule, mut extra, mut without) = (None, None, Vec::new(), Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((head, value)) = line.split_once(':') else {
                return Err(wrong(format!(
                    "{} is not a line of a rule; write such as `DTSTART;VALUE=DATE:20261126`, `RRULE:FREQ=YEARLY`",
                    QuotedText(line)
                )));
            };
            let (name, parameters) = head.split_once(';').unwrap_or((head, ""));
            let moments = || moments(field, name, parameters, value);
            match name.to_ascii_uppercase().as_str() {
                "DTSTART" if start.is_none() => match moments()?.as_slice() {
                    [only] => start = Some(*only),
                    _ => {
                        return Err(wrong(
                            "DTSTART has several times; write a separate rule for each".to_owned(),
                        ));
                    }
                },
                "RRULE" if rule.is_none() => rule = Some(value),
                "DTSTART" | "RRULE" => {
                    return Err(wrong(format!("has two lines {name}; write a separate rule for each")));
                }
                "RDATE" => extra.extend(moments()?),
                "EXDATE" => without.extend(moments()?),
                "DTEND" | "DURATION" => {
                    return Err(wrong(format!(
                        "has a line {name}; write the length beside the rule: \
                         `{{\"rule\": …, \"duration\": \"PT2H\"}}`"
                    )));
                }
                _ => {
                    return Err(wrong(format!(
                        "{} is not a line of a rule; allowed are DTSTART, RRULE, RDATE, EXDATE",
                        QuotedText(name)
                    )));
                }
            }
        }
        let start = start.ok_or_else(|| {
            wrong("has no line DTSTART; begin with such as `DTSTART;VALUE=DATE:20261126`".to_owned())
        })?;
        LineValues { start, rule, extra, without }.check(field)
    }

    fn occurrences(&self, field: &str) -> Result<Vec<NaiveDateTime>, ScheduleError> {
        let none = || {
            ScheduleError::invalid(
                field,
                format!("matches no day up to {LAST_YEAR}; check its BY… parts, UNTIL and EXDATE"),
            )
        };
        let mut occurrences = match &self.frequency {
            Some(frequency) => recurrence::expand(field, self.start, frequency.text(), self.last(frequency))?,
            None => vec![self.start],
        };
        // Before RDATE: a search without a match is expensive, so the definition must fail at the
        // first one.
        if occurrences.is_empty() {
            return Err(none());
        }
        occurrences.extend(&self.extra);
        if occurrences.len() > MAX_OCCURRENCES {
            return Err(ScheduleError::invalid(
                field,
                format!(
                    "occurs more than {MAX_OCCURRENCES} times up to {LAST_YEAR}; use `weekly` for what happens on \
                     days of the week, or end the rule with COUNT or UNTIL"
                ),
            ));
        }
        let (days, times) = self.removed();
        occurrences.retain(|at| days.binary_search(&at.date()).is_err() && times.binary_search(at).is_err());
        occurrences.sort_unstable();
        occurrences.dedup();
        if occurrences.is_empty() { Err(none()) } else { Ok(occurrences) }
    }

    fn last(&self, frequency: &Frequency) -> NaiveDateTime {
        let until = frequency.until().map(|until| match local(until) {
            (at, true) if !self.whole_days => at.date().and_time(LAST_SECOND),
            (at, _) if self.whole_days => midnight(at.date()),
            (at, _) => at,
        });
        let horizon =
            NaiveDate::from_ymd_opt(LAST_YEAR, 12, 31).unwrap_or(NaiveDate::MAX).and_time(LAST_SECOND);
        until.map_or(horizon, |until| until.min(horizon))
    }

    fn removed(&self) -> (Vec<NaiveDate>, Vec<NaiveDateTime>) {
        let (mut days, mut times) = (Vec::new(), Vec::new());
        for moment in &self.without {
            match local(*moment) {
                (at, false) if !self.whole_days => times.push(at),
                (at, _) => days.push(at.date()),
            }
        }
        days.sort_unstable();
        times.sort_unstable();
        (days, times)
    }
}

const LAST_SECOND: NaiveTime = match NaiveTime::from_hms_opt(23, 59, 59) {
    Some(time) => time,
    None => panic!("a day has a last second"),
};

/// The flag is whether it is a whole day. Times in UTC were rejected before.
fn local(moment: Moment) -> (NaiveDateTime, bool) {
    match moment {
        Moment::Day(day) => (midnight(day), true),
        Moment::Local(at) | Moment::Utc(at) => (at, false),
    }
}

/// RFC 5545 joins a line that begins with a blank to the line before.
fn unfolded(text: &str) -> String {
    text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "")
}

fn moments(field: &str, name: &str, parameters: &str, value: &str) -> Result<Vec<Moment>, ScheduleError> {
    let wrong = |message: String| ScheduleError::invalid(field, message);
    let mut dates_only = false;
    for parameter in parameters.split(';').filter(|parameter| !parameter.is_empty()) {
        match parameter.to_ascii_uppercase().as_str() {
            "VALUE=DATE" => dates_only = true,
            "VALUE=DATE-TIME" => {}
            other if other.starts_with("TZID=") => return Err(wrong(no_zone(name, parameter))),
            _ => {
                return Err(wrong(format!(
                    "{name} has {}; allowed are VALUE=DATE and VALUE=DATE-TIME",
                    QuotedText(parameter)
                )));
            }
        }
    }
    let one = |text: &str| match moment(text.trim()) {
        Some(Moment::Utc(_)) => Err(wrong(no_zone(name, text))),
        Some(moment) if !dates_only || matches!(moment, Moment::Day(_)) => Ok(moment),
        _ => {
            let example = if dates_only { "`20261224`" } else { "`20261224` or `20261224T180000`" };
            Err(wrong(format!("{name} has {}; write a date that exists such as {example}", QuotedText(text))))
        }
    };
    value.split(',').map(one).collect()
}
