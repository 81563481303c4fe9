//! The configuration file: flat TOML keys, and optional tables whose keys override them for one
//! program.
//!
//! Tables of other programs are ignored, so that one file can serve all daemons of a host. Keys
//! keep their lines, for messages. Unknown keys are mistakes, because they are most likely
//! misspelt.

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::setting::{Program, Setting};
use crate::config::field_error::{LoadError, Mistake, Origin};

const PROGRAMS: &[&str] = &["api", "scheduler", "worker", "schedctl"];
/// Minimum similarity between a misspelt key and a known one for a suggestion.
const SIMILAR: f64 = 0.75;

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) setting: &'static str,
    pub(crate) origin: Origin,
    /// The value as text, or the mistake in its type.
    pub(crate) value: Result<String, &'static str>,
}

/// The entries for one program. The last entry for a setting wins.
#[derive(Debug, Default)]
pub(crate) struct FileValues {
    pub(crate) entries: Vec<Entry>,
    pub(crate) mistakes: Vec<Mistake>,
}

/// Reads the file at `path`, which `origin` named.
pub(crate) fn read(
    path: &Path,
    origin: Origin,
    program: &Program,
    settings: &[Setting],
) -> Result<FileValues, LoadError> {
    let text = fs::read_to_string(path).map_err(|source| LoadError::Unreadable {
        path: path.to_owned(),
        origin,
        source,
    })?;
    parse(path, &text, program, settings)
}

fn parse(path: &Path, text: &str, program: &Program, settings: &[Setting]) -> Result<FileValues, LoadError> {
    let root = DeTable::parse(text).map_err(|error| LoadError::Syntax {
        path: path.to_owned(),
        line: line_at(text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let mut reading = Reading { path, text, settings, found: FileValues::default() };
    let mut own = None;
    for (key, value) in root.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) if key.get_ref() == program.table() => own = Some(table),
            DeValue::Table(_) if PROGRAMS.contains(&key.get_ref().as_ref()) => {}
            DeValue::Table(_) => reading.unknown_table(key),
            value => reading.entry("", key, value),
        }
    }
    // Last: the program's own table overrides flat keys at any place in the file.
    for (key, value) in own.into_iter().flatten() {
        reading.entry(program.table(), key, value.get_ref());
    }
    Ok(reading.found)
}

type Key<'a> = Spanned<DeString<'a>>;

struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
    settings: &'a [Setting],
    found: FileValues,
}

impl Reading<'_> {
    fn entry(&mut self, table: &str, key: &Key<'_>, value: &DeValue<'_>) {
        let name = key.get_ref().replace('_', "-");
        let Some(setting) = self.settings.iter().find(|setting| setting.name == name) else {
            return self.unknown_key(key, &name);
        };
        let line = line_at(self.text, key.span().start);
        let key = key.get_ref();
        let key = if table.is_empty() { key.to_string() } else { format!("{table}.{key}") };
        let origin = Origin::File { path: self.path.to_owned(), line, key };
        // `a-b` and `a_b` of one table are two keys of TOML, but one setting.
        let twice = self
            .found
            .entries
            .iter()
            .find(|entry| entry.setting == setting.name && entry.origin.in_table() == origin.in_table());
        if let Some(first) = twice {
            let text = format!("{name} is given twice: {} and {origin}", first.origin);
            self.found.mistakes.push(Mistake::new(name, text));
        }
        self.found.entries.push(Entry { setting: setting.name, origin, value: as_text(value) });
    }

    fn unknown_key(&mut self, key: &Key<'_>, name: &str) {
        let known = self.settings.iter().filter(|setting| !setting.hidden).map(|setting| setting.name);
        self.unknown("setting", key, closest(name, known));
    }

    fn unknown_table(&mut self, key: &Key<'_>) {
        self.unknown("table", key, closest(key.get_ref(), PROGRAMS.iter().copied()));
    }

    fn unknown(&mut self, kind: &str, key: &Key<'_>, suggestion: Option<&str>) {
        let hint = match suggestion {
            Some(name) => format!("did you mean {name:?}?"),
            None => "--help lists what there is".to_owned(),
        };
        let line = line_at(self.text, key.span().start);
        let key: &str = key.get_ref();
        let text = format!("{}:{line}: unknown {kind} {key:?}; {hint}", self.path.display());
        self.found.mistakes.push(Mistake::new(key, text));
    }
}

impl Origin {
    fn in_table(&self) -> Option<&str> {
        match self {
            Self::File { key, .. } => key.split_once('.').map(|(table, _)| table),
            Self::Flag(_) | Self::Variable(_) | Self::Default => None,
        }
    }
}

/// The scalar as a flag's value; an array of strings becomes a comma-separated list.
fn as_text(value: &DeValue<'_>) -> Result<String, &'static str> {
    const EXPECTED: &str = "must be a text, a number, true or false, or an array of texts";
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Integer(_) => Err("must be written in decimal"),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            let items = items.ok_or(EXPECTED)?;
            let divided = items.iter().any(|item| item.contains(','));
            if divided { Err("must not hold a comma inside an item") } else { Ok(items.join(",")) }
        }
        DeValue::Datetime(_) | DeValue::Table(_) => Err(EXPECTED),
    }
}

fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|candidate| (strsim::jaro_winkler(name, candidate), candidate));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(score, _)| *score >= SIMILAR).map(|(_, candidate)| candidate)
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
