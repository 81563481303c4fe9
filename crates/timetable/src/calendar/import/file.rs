//! An iCalendar file as lines: the properties of the calendar and of each of its events.
//!
//! The only module that uses the icalendar crate, and only its reader. The reader recurses into
//! nested components, so their depth is bounded. It searches the rest of the file for each line
//! end, so line ends are normalised. Other components (time zones, tasks, alarms) are skipped.
//! Pure.

use std::panic::catch_unwind;

use icalendar::parser::{Component, Property, read_components, unfold};

use super::{
    super::super::error::{QuotedText, ScheduleError},
    FIELD,
};

/// In bytes.
const MAX_SIZE: usize = 512 * 1024;

/// An alarm in an event in a calendar is three deep.
const MAX_DEPTH: usize = 8;

/// The name is in upper case.
#[derive(Debug)]
pub(super) struct ContentLine {
    pub(super) name: String,
    parameters: Vec<(String, String)>,
    pub(super) value: String,
}

impl ContentLine {
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) properties: Vec<ContentLine>,
    pub(super) events: Vec<Vec<ContentLine>>,
}

impl File {
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let wrong = |message: String| Err(ScheduleError::invalid(FIELD, message));
        if text.len() > MAX_SIZE {
            return wrong(format!("has {} bytes; at most {MAX_SIZE} are allowed", text.len()));
        }
        let text = text.trim_start_matches('\u{feff}').trim().replace("\r\n", "\n").replace('\r', "\n");
        let text = unfold(&text);
        let first = text.lines().next().unwrap_or_default();
        if !first.trim().eq_ignore_ascii_case("BEGIN:VCALENDAR") {
            return wrong(format!(
                "is not an iCalendar file: it begins with {} instead of `BEGIN:VCALENDAR`",
                QuotedText(first)
            ));
        }
        if depth(&text) > MAX_DEPTH {
            return wrong(format!("has components nested more than {MAX_DEPTH} deep"));
        }
        // The reader searches for this line end first, possibly up to the end of the file.
        let text = text.replace('\n', "\r\n");
        // The reader only borrows, so a panic leaves nothing half done.
        let roots =
            catch_unwind(|| read_components(&text).map(|roots| roots.iter().map(Self::new).collect()));
        match roots {
            Ok(Ok(roots)) => Ok(Self::joined(roots)),
            Ok(Err(error)) => wrong(format!("is not an iCalendar file: it cannot be read {}", place(&error))),
            Err(_panic) => wrong("is not an iCalendar file: its reader panicked".to_owned()),
        }
    }

    fn new(root: &Component<'_>) -> Self {
        let lines = |properties: &[Property<'_>]| properties.iter().map(line).collect();
        let events = root.components.iter().filter(|part| part.name.as_str().eq_ignore_ascii_case("VEVENT"));
        Self {
            properties: lines(&root.properties),
            events: events.map(|event| lines(&event.properties)).collect(),
        }
    }

    fn joined(files: Vec<Self>) -> Self {
        let mut all = Self { properties: Vec::new(), events: Vec::new() };
        for file in files {
            all.properties.extend(file.properties);
            all.events.extend(file.events);
        }
        all
    }
}

fn line(property: &Property<'_>) -> ContentLine {
    let parameters = property.params.iter().map(|parameter| {
        let value = parameter.val.as_ref().map(ToString::to_string);
        (parameter.key.as_str().to_ascii_uppercase(), value.unwrap_or_default())
    });
    ContentLine {
        name: property.name.as_str().to_ascii_uppercase(),
        parameters: parameters.collect(),
        value: property.val.as_str().trim().to_owned(),
    }
}

/// Counts every line that looks like a beginning.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for line in text.lines() {
        let keyword = line.split(':').next().unwrap_or_default().trim();
        if keyword.eq_ignore_ascii_case("BEGIN") {
            depth += 1;
            deepest = deepest.max(depth);
        } else if keyword.eq_ignore_ascii_case("END") {
            depth = depth.saturating_sub(1);
        }
    }
    deepest
}

/// The first line that the reader's message names.
fn place(message: &str) -> String {
    let place = message.split_once("at line ").map(|(_, rest)| rest);
    let number: String = place.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    if number.is_empty() {
        "to its end".to_owned()
    } else {
        format!("past line {number} (folded lines joined)")
    }
}
