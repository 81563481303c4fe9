//! The JSON definition of a calendar: its shape, its limits, and the location of a mistake in it.
//!
//! `notation` and `rule` parse the text of each entry; `calendar` combines the entries. An unknown
//! field is rejected, so that a misspelt list cannot silently exclude nothing. Pure.

use chrono::NaiveDate;
use serde_json::{Map, Value};

use super::{
    super::{
        error::{QuotedText, ScheduleError},
        zone::Zone,
    },
    notation,
    rule::Rule,
    stretches::Stretch,
    weekly::{DAY, WeeklyEntry},
    yearly::MonthDay,
};

pub(super) const DEFINITION: &str = "definition";

const MAX_ENTRIES: usize = 1_000;

pub(super) const MAX_RULES: usize = 100;

/// Of all rules together: bounds the memory of a calendar.
const MAX_OCCURRENCES: usize = 50_000;

/// In bytes.
const MAX_TEXT: usize = 2_000;

const LISTS: [&str; 6] = ["dates", "yearly", "weekly", "windows", "rules", "except"];

#[derive(Debug)]
pub(super) struct Definition {
    pub(super) zone: Option<Zone>,
    pub(super) dates: Vec<(NaiveDate, NaiveDate)>,
    pub(super) yearly: Vec<(MonthDay, MonthDay)>,
    pub(super) weekly: Vec<WeeklyEntry>,
    pub(super) windows: Vec<Stretch>,
    pub(super) rules: Vec<Rule>,
    pub(super) except: Vec<(NaiveDate, NaiveDate)>,
}

impl Definition {
    pub(super) fn parse(definition: &Value) -> Result<Self, ScheduleError> {
        let object = Object::new(DEFINITION, definition)?;
        object.refuse_unknown(&[&["timezone"][..], &LISTS].concat())?;
        check_limits(&object)?;
        let zone = object.text("timezone")?.map(|(field, name)| {
            Zone::parse(name).map_err(|error| error.relocated(|_, message| (field, message)))
        });
        Ok(Self {
            zone: zone.transpose()?,
            dates: object.list("dates", |field, value| notation::days(field, text(field, value)?))?,
            yearly: object.list("yearly", |field, value| notation::month_days(field, text(field, value)?))?,
            weekly: object.list("weekly", weekly)?,
            windows: object.list("windows", window)?,
            except: object.list("except", |field, value| notation::days(field, text(field, value)?))?,
            // Last, because they cost most.
            rules: rules(&object)?,
        })
    }
}

fn check_limits(object: &Object<'_>) -> Result<(), ScheduleError> {
    let count = |list: &&str| object.fields.get(*list).and_then(Value::as_array).map_or(0, Vec::len);
    let entries: usize = LISTS.iter().map(count).sum();
    if entries > MAX_ENTRIES {
        return Err(ScheduleError::invalid(
            DEFINITION,
            format!("has {entries} entries; at most {MAX_ENTRIES} are allowed in all lists together"),
        ));
    }
    let rules = count(&"rules");
    if rules > MAX_RULES {
        return Err(ScheduleError::invalid(
            object.path("rules"),
            format!("has {rules} rules; at most {MAX_RULES} are allowed"),
        ));
    }
    Ok(())
}

fn weekly(field: &str, value: &Value) -> Result<WeeklyEntry, ScheduleError> {
    if let Value::String(_) = value {
        let day = notation::weekday(field, text(field, value)?)?;
        return Ok(WeeklyEntry { days: vec![day], from: 0, until: DAY });
    }
    let entry = Object::new(field, value)?;
    entry.refuse_unknown(&["days", "from", "until"])?;
    let days = entry.list("days", |field, value| notation::weekday(field, text(field, value)?))?;
    if days.is_empty() || days.len() > 7 {
        return Err(ScheduleError::invalid(
            entry.path("days"),
            "names no day, or more than seven; list days such as `MON`",
        ));
    }
    let (field, from) = entry.required("from", "02:00")?;
    let from_second = notation::clock(&field, from)?;
    if from_second == DAY {
        return Err(ScheduleError::invalid(field, "is the end of the day; write `00:00` of the day after"));
    }
    let (field, until) = entry.required("until", "04:30")?;
    Ok(WeeklyEntry { days, from: from_second, until: notation::clock(&field, until)? })
}

fn window(field: &str, value: &Value) -> Result<Stretch, ScheduleError> {
    let entry = Object::new(field, value)?;
    entry.refuse_unknown(&["from", "until"])?;
    let (field, from) = entry.required("from", "2026-12-23T18:00:00")?;
    let from = notation::local_time(&field, from)?;
    let (field, until) = entry.required("until", "2027-01-02T06:00:00")?;
    let until = notation::local_time(&field, until)?;
    if until <= from {
        return Err(ScheduleError::invalid(field, "is not later than `from`"));
    }
    Ok(Stretch { from, until })
}

fn rules(object: &Object<'_>) -> Result<Vec<Rule>, ScheduleError> {
    let mut total = 0;
    object.list("rules", |field, value| {
        let rule = rule(field, value)?;
        total += rule.count();
        if total > MAX_OCCURRENCES {
            return Err(ScheduleError::invalid(
                field,
                format!(
                    "is one rule too many: with it the rules occur more than {MAX_OCCURRENCES} times; use `weekly` \
                     and `yearly`, or end rules with COUNT or UNTIL"
                ),
            ));
        }
        Ok(rule)
    })
}

fn rule(field: &str, value: &Value) -> Result<Rule, ScheduleError> {
    if let Value::String(_) = value {
        return Rule::parse(field, text(field, value)?, None);
    }
    let entry = Object::new(field, value)?;
    entry.refuse_unknown(&["rule", "duration"])?;
    let (rule_field, rule) = entry.required("rule", "DTSTART:20260105T220000\\nRRULE:FREQ=WEEKLY")?;
    let length = entry.text("duration")?;
    let length = length.map(|(field, text)| notation::length(&field, text).map(|length| (field, length)));
    let length = length.transpose()?;
    Rule::parse(&rule_field, rule, length.as_ref().map(|(field, length)| (field.as_str(), *length)))
}

struct Object<'a> {
    path: &'a str,
    fields: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    fn new(path: &'a str, value: &'a Value) -> Result<Self, ScheduleError> {
        match value {
            Value::Object(fields) => Ok(Self { path, fields }),
            _ => Err(ScheduleError::invalid(path, "must be an object")),
        }
    }

    fn path(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    fn refuse_unknown(&self, known: &[&str]) -> Result<(), ScheduleError> {
        let unknown = self.fields.keys().find(|key| !known.contains(&key.as_str()));
        unknown.map_or(Ok(()), |unknown| {
            let message =
                format!("{} is not a field here; allowed are {}", QuotedText(unknown), known.join(", "));
            Err(ScheduleError::invalid(self.path, message))
        })
    }

    fn text(&self, field: &str) -> Result<Option<(String, &'a str)>, ScheduleError> {
        let path = self.path(field);
        let Some(value) = self.fields.get(field) else { return Ok(None) };
        let text = text(&path, value)?;
        Ok(Some((path, text)))
    }

    fn required(&self, field: &str, example: &str) -> Result<(String, &'a str), ScheduleError> {
        self.text(field)?.ok_or_else(|| {
            ScheduleError::invalid(self.path(field), format!("is missing; give such as `{example}`"))
        })
    }

    fn list<T>(
        &self,
        field: &str,
        mut read: impl FnMut(&str, &Value) -> Result<T, ScheduleError>,
    ) -> Result<Vec<T>, ScheduleError> {
        let path = self.path(field);
        match self.fields.get(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(entries)) => {
                let entries = entries.iter().enumerate();
                entries.map(|(position, value)| read(&format!("{path}.{position}"), value)).collect()
            }
            Some(_) => Err(ScheduleError::invalid(path, "is not a list; write its entries in `[…]`")),
        }
    }
}

fn text<'a>(field: &str, value: &'a Value) -> Result<&'a str, ScheduleError> {
    let Value::String(text) = value else {
        return Err(ScheduleError::invalid(
            field,
            format!("is not text but {}", QuotedText(&value.to_string())),
        ));
    };
    if text.len() > MAX_TEXT {
        return Err(ScheduleError::invalid(
            field,
            format!("has {} bytes; at most {MAX_TEXT} are allowed", text.len()),
        ));
    }
    Ok(text)
}
