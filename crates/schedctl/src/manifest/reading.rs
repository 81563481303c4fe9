//! Parses a jobs file, and collects its errors.
//!
//! A parser stops at the first error. Later errors are found by parsing again without the faulty
//! item, in block style only. YAML 1.2, unless the name ends in `.json`. Duplicate keys, and `yes`
//! for a boolean, are rejected; the library limits aliases.

use std::borrow::Cow;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use sched_wire::Manifest;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};

use super::mistakes::{self, Mistake, Where};
use super::wording::{self, plain_message};
use crate::manifest::source_positions::{Outline, Position};
use crate::suggest;

/// Above the request limit of the API.
const LARGEST: u64 = 4 * 1024 * 1024;

pub(super) fn text(path: &Path) -> Result<String, Mistake> {
    let wrong = |message: String| Mistake {
        place: Where { file: Some(path.to_owned()), ..Where::default() },
        message,
    };
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(LARGEST + 1).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text))
    };
    match read {
        Ok(size) if size as u64 > LARGEST => Err(wrong(format!("the file is larger than {LARGEST} bytes"))),
        Ok(_) => Ok(text),
        Err(error) => Err(wrong(format!("could not be read: {error}"))),
    }
}

const LEADING_ZERO: &str =
    "a number with a leading zero is ambiguous; quote it as text, or write it without the zero";

/// In one file.
const MOST_MISTAKES: usize = 20;

/// For a file with a single definition.
pub(super) fn fields(path: &Path) -> Result<(Map<String, Value>, Option<Outline>), Mistake> {
    let text = text(path)?;
    let outline = Outline::of(&text);
    let read = if is_json(path) { json(&text) } else { checked_yaml(&text, outline.as_ref()) };
    read.map(|fields| (fields, outline)).map_err(|Fault { at, message, .. }| Mistake {
        place: Where { file: Some(path.to_owned()), position: at, ..Where::default() },
        message,
    })
}

struct Fault {
    at: Option<Position>,
    message: String,
    blame: Blame,
}

/// Relative to the value at which the parser stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    Field,
    /// The object around it lacks a field; the position is that of its last field.
    Owner,
    /// Another part of the same item, without a position.
    Item,
}

/// The sound items of a file, and at most one error per other item.
pub(super) struct ParsedFile {
    /// `None` if the errors leave nothing to read.
    pub(super) sound: Option<(Manifest, Option<Outline>)>,
    pub(super) mistakes: Vec<Mistake>,
}

pub(super) fn parse(path: &Path, text: &str) -> ParsedFile {
    let mut mistakes = Vec::new();
    let mut text = Cow::Borrowed(text);
    loop {
        let Wrong { mistake, item } = match read(path, &text) {
            Ok(read) => return ParsedFile { sound: Some(read), mistakes },
            Err(wrong) => *wrong,
        };
        if mistakes.is_empty() || item.is_some() {
            mistakes.push(mistake);
        }
        match item.filter(|_| mistakes.len() < MOST_MISTAKES).and_then(|item| without(&text, item)) {
            Some(rest) => text = Cow::Owned(rest),
            None => return ParsedFile { sound: None, mistakes },
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Item {
    start: Position,
    is_alone: bool,
    fault: Position,
}

/// The first error and its item.
struct Wrong {
    mistake: Mistake,
    item: Option<Item>,
}

fn read(path: &Path, text: &str) -> Result<(Manifest, Option<Outline>), Box<Wrong>> {
    let outline = Outline::of(text);
    let is_json = is_json(path);
    let read = if is_json { json(text) } else { checked_yaml(text, outline.as_ref()) };
    match read {
        Ok(manifest) => Ok((manifest, outline)),
        Err(_) if outline.as_ref().is_some_and(|outline| wording::is_answer(|name| outline.has(name))) => {
            let place = Where { file: Some(path.to_owned()), ..Where::default() };
            Err(Box::new(Wrong {
                mistake: Mistake { place, message: wording::ANSWER.to_owned() },
                item: None,
            }))
        }
        Err(Fault { at, message, blame }) => {
            let mut place = Where { file: Some(path.to_owned()), position: at, ..Where::default() };
            let mut item = None;
            // A duplicate list has only one set of positions: an item before the second list is not
            // at fault.
            let is_of_all = blame == Blame::Item && at.is_some_and(|at| at.column == 1);
            if let (Some(outline), Some(at), false) = (&outline, at, is_of_all) {
                name(&mut place, outline, at, blame);
                let path = outline.path_at(at);
                if let Some(path) = path.get(..2).filter(|_| !is_json) {
                    let is_alone = outline.count(path.first().map_or("", String::as_str)) == 1;
                    item = outline.position(path).map(|start| Item { start, is_alone, fault: at });
                }
            }
            Err(Box::new(Wrong { mistake: Mistake { place, message }, item }))
        }
    }
}

/// Empties the lines of the item, so that other lines keep their numbers. `None` if the item shares
/// its lines, the error is elsewhere, or another item may refer to it.
fn without(text: &str, item: Item) -> Option<String> {
    fn indent(line: &str) -> usize {
        line.len() - line.trim_start_matches(' ').len()
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let first = usize::try_from(item.start.line).ok()?.checked_sub(1)?;
    let (head, rest) = lines.get(first..)?.split_first()?;
    let dash = indent(head);
    if !head.trim_start_matches(' ').starts_with("- ") {
        return None;
    }
    let is_of_item = |line: &&&str| {
        let told = line.trim();
        told.is_empty() || told.starts_with('#') || indent(line) > dash
    };
    let count = 1 + rest.iter().take_while(is_of_item).count();
    let faulty = usize::try_from(item.fault.line).ok()?.checked_sub(1)?;
    if !(first..first + count).contains(&faulty)
        || lines.iter().skip(first).take(count).any(|line| has_anchor(line))
    {
        return None;
    }
    lines.iter_mut().skip(first).take(count).for_each(|line| *line = "");
    // An empty list must be explicit, indented more than its name.
    let nothing = format!("{:dash$} []", "");
    if let Some(line) = lines.get_mut(first).filter(|_| item.is_alone) {
        *line = &nothing;
    }
    Some(lines.join("\n"))
}

/// An anchor is `&name` at the start of a value.
fn has_anchor(line: &str) -> bool {
    line.match_indices('&').any(|(at, _)| {
        let (before, after) = (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default());
        before.chars().next_back().is_none_or(|one| one.is_whitespace() || "[{,".contains(one))
            && after.chars().next().is_some_and(|one| !one.is_whitespace() && one != '&')
    })
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let at = Position { line: error.line() as u64, column: error.column() as u64 };
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        match plain_message(message) {
            (Some(field), _) => Fault {
                at: Some(at),
                message: format!("the field `{field}` is missing"),
                blame: Blame::Owner,
            },
            (None, message) => Fault { at: Some(at), message, blame: Blame::Field },
        }
    })
}

/// Refuses numbers that YAML 1.1 and 1.2 read differently.
fn checked_yaml<T: DeserializeOwned>(text: &str, outline: Option<&Outline>) -> Result<T, Fault> {
    let read = yaml(text)?;
    match outline.and_then(|outline| outline.leading_zero(text)) {
        None => Ok(read),
        at => Err(Fault { at, message: LEADING_ZERO.to_owned(), blame: Blame::Field }),
    }
}

fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.without_snippet();
        let blame = match error {
            Error::SerdeMissingField { .. } => Blame::Owner,
            Error::DuplicateMappingKey { .. } => Blame::Item,
            _ => Blame::Field,
        };
        Fault { at: error.location().and_then(Position::of), message: reword(error), blame }
    })
}

/// Omits the position, which is already in front.
fn reword(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => suggest::unknown_field(field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let meant = suggest::closest(variant, expected.iter().copied());
            let meant = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
            format!("`{variant}` is not allowed{meant}; use one of {}", expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("the field `{field}` is missing"),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key `{key}`"),
        Error::InvalidScalar { ty: "i16" | "i32" | "u8" | "u32", .. } => {
            "must be a whole number in range".to_owned()
        }
        Error::InvalidBooleanStrict { .. } | Error::InvalidScalar { ty: "bool", .. } => {
            "must be true or false".to_owned()
        }
        Error::UnknownAnchor { .. } => {
            "unknown alias; quote a value that begins with an asterisk, such as a cron expression".to_owned()
        }
        error => UserMessageFormatter.format_message(error).into_owned(),
    }
}

fn name(place: &mut Where, outline: &Outline, at: Position, blame: Blame) {
    let mut path = outline.path_at(at);
    match blame {
        Blame::Field => {}
        Blame::Owner => {
            path.pop();
            place.position = outline.position(&path).or(Some(at));
        }
        Blame::Item => path.truncate(2),
    }
    let [list, index, rest @ ..] = path.as_slice() else {
        place.field = path.join(".");
        return;
    };
    let name = outline.text(&[list.clone(), index.clone(), "name".to_owned()]);
    place.item = match name {
        Some(name) => mistakes::item(list, name),
        None => Some(format!("{list}[{index}]")),
    };
    place.field = rest.join(".");
}
