//! One event of an iCalendar file, and its entry in a definition.
//!
//! Times are converted to the local time of the file's only zone. An event without a local form is
//! rejected, such as one that recurs in UTC in a zone with daylight saving. Pure; errors name the
//! event.

use chrono::{NaiveDate, NaiveDateTime, TimeDelta};
use serde_json::{Value, json};

use super::{
    super::{
        super::{
            error::{QuotedText, ScheduleError},
            zone::Zone,
        },
        notation::{self, Moment},
    },
    FIELD,
    file::ContentLine,
};

#[derive(Debug, Clone)]
pub(super) struct Stamp {
    pub(super) moment: Moment,
    pub(super) zone: Option<String>,
}

#[derive(Debug)]
pub(super) struct Event {
    label: String,
    pub(super) uid: Option<String>,
    pub(super) cancelled: bool,
    /// The occurrence that this event overrides.
    pub(super) stands_for: Option<Stamp>,
    start: Stamp,
    end: Option<Stamp>,
    length: Option<TimeDelta>,
    rule: Option<String>,
    extra: Vec<Stamp>,
    without: Vec<Stamp>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    Days(NaiveDate, NaiveDate),
    Window(NaiveDateTime, NaiveDateTime),
    Rule { text: String, length: Option<String> },
}

impl Event {
    pub(super) fn parse(lines: &[ContentLine]) -> Result<Self, ScheduleError> {
        let find = |name: &str| lines.iter().find(|line| line.name == name);
        let value = |name: &str| find(name).map(|line| line.value.clone()).filter(|value| !value.is_empty());
        let label = value("SUMMARY").or_else(|| value("UID"));
        let label = label.map_or_else(
            || "an event without name".to_owned(),
            |label| format!("event {}", QuotedText(&label)),
        );
        let wrong = |message: &str| ScheduleError::invalid(FIELD, format!("{label}: {message}"));
        let stamps = |name: &str| -> Result<Vec<Stamp>, ScheduleError> {
            let lines = lines.iter().filter(|line| line.name == name);
            let lists = lines.map(|line| stamps(line).map_err(|message| wrong(&message)));
            Ok(lists.collect::<Result<Vec<_>, _>>()?.concat())
        };
        let one = |name: &str| match stamps(name)?.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            _ => Err(wrong(&format!("has several times in {name}"))),
        };
        let rules: Vec<&str> =
            lines.iter().filter(|line| line.name == "RRULE").map(|line| line.value.as_str()).collect();
        if rules.len() > 1 || find("EXRULE").is_some() {
            return Err(wrong("has several recurrence rules; create a separate event for each"));
        }
        if find("RECURRENCE-ID").is_some_and(|line| line.parameter("RANGE").is_some()) {
            return Err(wrong(
                "changes all later occurrences at once; end the first series and begin another",
            ));
        }
        let length = value("DURATION").filter(|text| !NO_TIME.contains(&text.as_str()));
        let length = length.map(|text| notation::length("DURATION", &text));
        Ok(Self {
            uid: value("UID"),
            cancelled: value("STATUS").is_some_and(|status| status.eq_ignore_ascii_case("CANCELLED")),
            stands_for: one("RECURRENCE-ID")?,
            start: one("DTSTART")?.ok_or_else(|| wrong("has no DTSTART"))?,
            end: one("DTEND")?,
            length: length.transpose().map_err(|error| wrong(&error.to_string()))?,
            rule: rules.first().map(|rule| (*rule).to_owned()),
            extra: stamps("RDATE")?,
            without: stamps("EXDATE")?,
            label,
        })
    }

    pub(super) fn stamps(&self) -> impl Iterator<Item = &Stamp> {
        let lists = self.extra.iter().chain(&self.without);
        lists.chain(&self.stands_for).chain([&self.start]).chain(&self.end)
    }

    pub(super) fn exclude(&mut self, stamps: Vec<Stamp>) {
        self.without.extend(stamps);
    }

    pub(super) fn repeats(&self) -> bool {
        self.rule.is_some() || !self.extra.is_empty()
    }

    pub(super) fn wrong(&self, message: &str) -> ScheduleError {
        ScheduleError::invalid(FIELD, format!("{}: {message}", self.label))
    }

    /// In the local time of the file's zone.
    pub(super) fn entry(&self, zone: Option<&Zone>) -> Result<Entry, ScheduleError> {
        let start = local(self.start.moment, zone);
        if self.repeats() && matches!(self.start.moment, Moment::Utc(_)) && !zone.is_some_and(is_utc) {
            return Err(self.wrong(
                "repeats at a time in UTC, which has no fixed local time; give DTSTART the TZID of its zone",
            ));
        }
        let length = self.length(start, zone)?;
        if self.repeats() {
            return self.rule_entry(start, length, zone);
        }
        Ok(match start {
            Moment::Day(day) => {
                let more = length.unwrap_or(DAY) - DAY;
                Entry::Days(day, day.checked_add_signed(more).ok_or_else(|| self.wrong("ends too late"))?)
            }
            Moment::Local(at) | Moment::Utc(at) => match length.map(|length| at.checked_add_signed(length)) {
                None => Entry::Days(at.date(), at.date()),
                Some(until) => Entry::Window(at, until.ok_or_else(|| self.wrong("ends too late"))?),
            },
        })
    }

    /// `None` without one, and for zero.
    fn length(&self, start: Moment, zone: Option<&Zone>) -> Result<Option<TimeDelta>, ScheduleError> {
        let Some(end) = &self.end else {
            return match (start, self.length) {
                (Moment::Day(_), Some(length)) if length.num_seconds() % DAY.num_seconds() != 0 => {
                    Err(self.wrong("begins with a date but lasts no whole days"))
                }
                (_, length) => Ok(length),
            };
        };
        let length = match (start, local(end.moment, zone)) {
            (Moment::Day(start), Moment::Day(end)) => end - start,
            (Moment::Local(start), Moment::Local(end)) => end - start,
            _ => return Err(self.wrong("has a date in DTSTART and a time in DTEND, or the reverse")),
        };
        if length < TimeDelta::zero() {
            return Err(self.wrong("ends before it begins"));
        }
        Ok(Some(length).filter(|length| !length.is_zero()))
    }

    fn rule_entry(
        &self,
        start: Moment,
        length: Option<TimeDelta>,
        zone: Option<&Zone>,
    ) -> Result<Entry, ScheduleError> {
        let list = |stamps: &[Stamp]| {
            let moments = stamps.iter().map(|stamp| local(stamp.moment, zone));
            let dates = matches!(start, Moment::Day(_));
            moments.map(|moment| written(moment, dates)).collect::<Vec<_>>().join(",")
        };
        let value = if matches!(start, Moment::Day(_)) { ";VALUE=DATE" } else { "" };
        let mut text = format!("DTSTART{value}:{}", list(std::slice::from_ref(&self.start)));
        if let Some(rule) = &self.rule {
            text.push_str(&format!("\nRRULE:{}", self.local_until(rule, start, zone)?));
        }
        for (name, stamps) in [("RDATE", &self.extra), ("EXDATE", &self.without)] {
            if !stamps.is_empty() {
                text.push_str(&format!("\n{name}:{}", list(stamps)));
            }
        }
        let length = length.filter(|length| value.is_empty() || *length != DAY).map(written_length);
        Ok(Entry::Rule { text, length })
    }

    /// Converts UNTIL, which files write in UTC, to local time. For recurring whole days, UNTIL
    /// keeps its written date.
    fn local_until(&self, rule: &str, start: Moment, zone: Option<&Zone>) -> Result<String, ScheduleError> {
        let part = |part: &str| {
            let until = part.split_once('=').filter(|(key, _)| key.trim().eq_ignore_ascii_case("UNTIL"));
            match (until.and_then(|(_, until)| notation::moment(until.trim())), start) {
                (Some(Moment::Utc(until)), Moment::Day(_)) => Ok(format!("UNTIL={}", until.format("%Y%m%d"))),
                (Some(until @ Moment::Utc(_)), _) => match zone {
                    Some(_) => Ok(format!("UNTIL={}", written(local(until, zone), false))),
                    None => Err(self.wrong("has an UNTIL in UTC, but the file names no time zone")),
                },
                _ => Ok(part.to_owned()),
            }
        };
        Ok(rule.split(';').map(part).collect::<Result<Vec<_>, _>>()?.join(";"))
    }
}

impl Entry {
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Days(first, last) if first == last => json!(first.to_string()),
            Self::Days(first, last) => json!(format!("{first}/{last}")),
            Self::Window(from, until) => json!({
                "from": from.format("%Y-%m-%dT%H:%M:%S").to_string(),
                "until": until.format("%Y-%m-%dT%H:%M:%S").to_string(),
            }),
            Self::Rule { text, length: None } => json!(text),
            Self::Rule { text, length: Some(length) } => json!({"rule": text, "duration": length}),
        }
    }
}

const DAY: TimeDelta = TimeDelta::days(1);

const NO_TIME: [&str; 5] = ["PT0S", "PT0M", "PT0H", "P0D", "P0DT0H0M0S"];

fn stamps(line: &ContentLine) -> Result<Vec<Stamp>, String> {
    let one = |text: &str| {
        let moment = notation::moment(text.trim()).ok_or_else(|| {
            format!(
                "has {} in {}; dates such as `20261224` and times such as `20261224T180000` are understood",
                QuotedText(text),
                line.name
            )
        })?;
        let zone = line.parameter("TZID").filter(|_| matches!(moment, Moment::Local(_)));
        Ok(Stamp { moment, zone: zone.map(str::to_owned) })
    };
    line.value.split(',').map(one).collect()
}

/// Without a zone there are no times in UTC: the file was rejected for them.
fn local(moment: Moment, zone: Option<&Zone>) -> Moment {
    match moment {
        Moment::Utc(at) => {
            let offset = zone.map_or(TimeDelta::zero(), |zone| zone.offset_at(at.and_utc()));
            Moment::Local(at.checked_add_signed(offset).unwrap_or(at))
        }
        other => other,
    }
}

/// Whether the zone is always UTC.
fn is_utc(zone: &Zone) -> bool {
    let span = zone.span_at(chrono::DateTime::UNIX_EPOCH);
    span.start.is_none() && span.end.is_none() && span.offset.is_zero()
}

fn written(moment: Moment, dates: bool) -> String {
    match moment {
        Moment::Day(day) => day.format("%Y%m%d").to_string(),
        Moment::Local(at) | Moment::Utc(at) if dates => at.format("%Y%m%d").to_string(),
        Moment::Local(at) | Moment::Utc(at) => at.format("%Y%m%dT%H%M%S").to_string(),
    }
}

fn written_length(length: TimeDelta) -> String {
    let seconds = length.num_seconds();
    match (seconds % DAY.num_seconds(), seconds % 3600, seconds % 60) {
        (0, ..) => format!("P{}D", length.num_days()),
        (_, 0, _) => format!("PT{}H", length.num_hours()),
        (_, _, 0) => format!("PT{}M", length.num_minutes()),
        _ => format!("PT{seconds}S"),
    }
}
