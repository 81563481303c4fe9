//! Import of an iCalendar file: its events as the definition of a calendar.
//!
//! Every event excludes its duration: whole days become `dates`, others `windows`, recurring ones
//! `rules`. The free or busy mark is ignored, because files of public holidays mark theirs as free;
//! cancelled events are skipped. An event that overrides an occurrence of a recurring event
//! replaces it.
//!
//! A definition has at most one zone, so a file with several is rejected; times in UTC become local
//! time. An event without a form in a definition is an error that names the event. Pure; the size
//! of the file and the limits of a definition bound the cost.

mod event;
mod file;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::{
    event::{Entry, Event, Stamp},
    file::File,
};
use super::{
    super::{error::ScheduleError, zone::Zone},
    Calendar,
    definition::MAX_RULES,
    notation::Moment,
};

const FIELD: &str = "icalendar";

pub fn from_icalendar(text: &str) -> Result<Value, ScheduleError> {
    let file = File::parse(text)?;
    let mut events = file.events.iter().map(|lines| Event::parse(lines)).collect::<Result<Vec<_>, _>>()?;
    replace_occurrences(&mut events);
    events.retain(|event| !event.cancelled);
    let repeated = events.iter().filter(|event| event.repeats()).count();
    if events.is_empty() || repeated > MAX_RULES {
        let message = if events.is_empty() {
            "has no event that is not cancelled".to_owned()
        } else {
            format!(
                "has {repeated} events that repeat; a calendar has at most {MAX_RULES} rules, so split the file"
            )
        };
        return Err(ScheduleError::invalid(FIELD, message));
    }
    let zone = zone(&file, &events)?;
    let entries = events.iter().map(|event| Ok((event.entry(zone.as_ref())?, event)));
    let mut entries = entries.collect::<Result<Vec<_>, ScheduleError>>()?;
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    entries.dedup_by(|(left, _), (right, _)| left == right);
    let definition = definition(zone.as_ref(), &entries);
    // The remaining errors are those of rules and of the common limits.
    match Calendar::parse(&definition) {
        Ok(_) => Ok(definition),
        Err(error) => Err(match event_of_rule(error.field(), &entries) {
            Some(event) => event.wrong(error.message()),
            None => error.relocated(|_, message| (FIELD.to_owned(), message)),
        }),
    }
}

fn definition(zone: Option<&Zone>, entries: &[(Entry, &Event)]) -> Value {
    let mut definition = Map::new();
    if let Some(zone) = zone {
        definition.insert("timezone".to_owned(), json!(zone.name()));
    }
    for (entry, _) in entries {
        let list = match entry {
            Entry::Days(..) => "dates",
            Entry::Window(..) => "windows",
            Entry::Rule { .. } => "rules",
        };
        if let Value::Array(list) = definition.entry(list).or_insert_with(|| json!([])) {
            list.push(entry.value());
        }
    }
    Value::Object(definition)
}

fn event_of_rule<'a>(path: &str, entries: &[(Entry, &'a Event)]) -> Option<&'a Event> {
    let position = path.strip_prefix("definition.rules.")?.split('.').next()?.parse().ok()?;
    let rules = entries.iter().filter(|(entry, _)| matches!(entry, Entry::Rule { .. }));
    rules.map(|(_, event)| *event).nth(position)
}

fn replace_occurrences(events: &mut [Event]) {
    let mut replaced: BTreeMap<String, Vec<Stamp>> = BTreeMap::new();
    for event in events.iter() {
        if let (Some(uid), Some(stamp)) = (&event.uid, &event.stands_for) {
            replaced.entry(uid.clone()).or_default().push(stamp.clone());
        }
    }
    for event in events.iter_mut().filter(|event| event.repeats() && event.stands_for.is_none()) {
        // A UID has one recurring event; the removal bounds the work.
        if let Some(stamps) = event.uid.as_ref().and_then(|uid| replaced.remove(uid)) {
            event.exclude(stamps);
        }
    }
}

/// That of the calendar or of its times; UTC if all times are in UTC.
fn zone(file: &File, events: &[Event]) -> Result<Option<Zone>, ScheduleError> {
    let wrong = |message: String| Err(ScheduleError::invalid(FIELD, message));
    let of_file = file.properties.iter().filter(|line| line.name == "X-WR-TIMEZONE");
    let mut zone: Option<Zone> = None;
    let names = of_file.map(|line| line.value.as_str());
    let of_times = events.iter().flat_map(Event::stamps).filter_map(|stamp| stamp.zone.as_deref());
    let mut last = "";
    for name in names.chain(of_times) {
        if name == last {
            continue;
        }
        last = name;
        let found = Zone::parse(name).map_err(|error| {
            error.relocated(|_, message| (FIELD.to_owned(), format!("time zone {message}")))
        })?;
        match &zone {
            Some(known) if *known != found => {
                return wrong(format!(
                    "mixes the time zones {} and {}; a calendar has one, so split the file",
                    known.name(),
                    found.name()
                ));
            }
            _ => zone = Some(found),
        }
    }
    let utc = |event: &&Event| event.stamps().any(|stamp| matches!(stamp.moment, Moment::Utc(_)));
    match (zone, events.iter().find(utc)) {
        (None, Some(_))
            if events.iter().flat_map(Event::stamps).all(|stamp| matches!(stamp.moment, Moment::Utc(_))) =>
        {
            Ok(Some(Zone::utc()))
        }
        (None, Some(event)) => {
            Err(event
                .wrong("has times in UTC beside local dates, and the file names no zone; add X-WR-TIMEZONE"))
        }
        (zone, _) => Ok(zone),
    }
}
