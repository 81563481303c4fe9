//! Tables: aligned columns without lines. Cells are escaped only here, so no column can forget it.
//! Pure.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};

use super::{Format, neutral};

pub(crate) struct Column<T> {
    title: &'static str,
    wide: bool,
    /// For tables that are printed line by line.
    least: usize,
    text: fn(&T) -> String,
}

impl<T> Column<T> {
    pub(crate) const fn new(title: &'static str, text: fn(&T) -> String) -> Self {
        Self { title, wide: false, least: 0, text }
    }

    pub(crate) const fn wide(title: &'static str, text: fn(&T) -> String) -> Self {
        Self { title, wide: true, least: 0, text }
    }

    /// For tables that are printed line by line.
    pub(crate) const fn at_least(self, width: usize) -> Self {
        Self { least: width, ..self }
    }

    fn cell(&self, item: &T) -> Cell {
        let text = (self.text)(item);
        let cell = Cell::new(neutral::line(&text));
        match tone(&text).filter(|_| self.has_states()) {
            Some(colour) => cell.fg(colour),
            None => cell,
        }
    }

    /// Only words of a state have a colour, not the same words in names and texts.
    fn has_states(&self) -> bool {
        let states = ["status", "last status", "state", "change", "fate", "outcome", "role"];
        states.iter().any(|state| self.title.eq_ignore_ascii_case(state))
    }
}

/// Empty without items.
pub(super) fn list<T>(items: &[T], columns: &[Column<T>], format: Format, colour: bool) -> String {
    if items.is_empty() {
        return String::new();
    }
    let shown: Vec<&Column<T>> = shown(columns, format).collect();
    let mut table = empty(colour);
    table.set_header(shown.iter().map(|column| Cell::new(column.title).add_attribute(Attribute::Bold)));
    for item in items {
        table.add_row(shown.iter().map(|column| column.cell(item)));
    }
    trimmed(table)
}

pub(super) fn record<T>(item: &T, columns: &[Column<T>], format: Format, colour: bool) -> String {
    let mut table = empty(colour);
    for column in shown(columns, format) {
        let title = Cell::new(as_word(column.title)).add_attribute(Attribute::Bold);
        table.add_row([title, column.cell(item)]);
    }
    trimmed(table)
}

fn shown<T>(columns: &[Column<T>], format: Format) -> impl Iterator<Item = &Column<T>> {
    columns.iter().filter(move |column| format == Format::Wide || !column.wide)
}

/// `SCHEDULED FOR` to `Scheduled for`; `URL` stays.
fn as_word(title: &str) -> String {
    let mut letters = title.chars();
    if title == "URL" || letters.clone().any(char::is_lowercase) {
        return title.to_owned();
    }
    letters.next().into_iter().chain(letters.flat_map(char::to_lowercase)).collect()
}

/// For a table of unknown length: every column is as wide as its widest cell so far.
pub(crate) struct Lines<T: 'static> {
    columns: Vec<&'static Column<T>>,
    /// Empty before the first item.
    widths: Vec<usize>,
}

impl<T: 'static> Lines<T> {
    pub(super) fn new(columns: &'static [Column<T>], format: Format) -> Self {
        Self { columns: shown(columns, format).collect(), widths: Vec::new() }
    }

    /// The first item follows the titles.
    pub(crate) fn item(&mut self, item: &T) -> String {
        let titles = || self.columns.iter().map(|column| column.title.to_owned()).collect();
        let titles: Option<Vec<String>> = self.widths.is_empty().then(titles);
        let cells = self.columns.iter().map(|column| neutral::line(&(column.text)(item)).into_owned());
        let rows: Vec<Vec<String>> = titles.into_iter().chain([cells.collect()]).collect();
        if self.widths.is_empty() {
            self.widths = self.columns.iter().map(|column| column.least).collect();
        }
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        rows.iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &[String]) -> String {
        let padded = row.iter().zip(&self.widths).map(|(cell, &width)| format!("{cell:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    }
}

fn empty(colour: bool) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// Of the first word: `paused until …: disk is full` has the colour of `paused`.
fn tone(text: &str) -> Option<Color> {
    match text.split([' ', ':']).next().unwrap_or_default() {
        "succeeded" | "ok" | "sent" | "enabled" | "active" | "idle" | "created" | "applied" | "leader"
        | "dispatched" => Some(Color::Green),
        "running" | "busy" | "updated" => Some(Color::Cyan),
        "waiting" | "degraded" | "draining" | "released" | "pending" | "paused" | "undecided" => {
            Some(Color::Yellow)
        }
        "failed" | "unavailable" | "timed_out" | "dead_letter" | "lost" | "expired" | "cancelled"
        | "offline" | "quarantined" | "unknown" | "unaccounted" | "two_fates" => Some(Color::Red),
        "disabled" | "inactive" | "deleted" | "discarded" => Some(Color::DarkGrey),
        _ => None,
    }
}

fn trimmed(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
