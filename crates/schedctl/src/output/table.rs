//! Tables for people: aligned columns without lines.
//!
//! Cells are escaped here and nowhere else, so no column can forget it. Colour only says again what a word says already.
//! Pure.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};

use super::{Format, neutral};

/// One column of a list, or one line of a record.
pub(crate) struct Column<T> {
    title: &'static str,
    wide: bool,
    text: fn(&T) -> String,
}

impl<T> Column<T> {
    /// A column of every table.
    pub(crate) const fn new(title: &'static str, text: fn(&T) -> String) -> Self {
        Self { title, wide: false, text }
    }

    /// A column of wide tables only.
    pub(crate) const fn wide(title: &'static str, text: fn(&T) -> String) -> Self {
        Self { title, wide: true, text }
    }
}

/// A line for each item; nothing at all when there is none.
pub(super) fn list<T>(items: &[T], columns: &[Column<T>], format: Format, colour: bool) -> String {
    if items.is_empty() {
        return String::new();
    }
    let shown: Vec<&Column<T>> =
        columns.iter().filter(|column| format == Format::Wide || !column.wide).collect();
    let mut table = empty(colour);
    table.set_header(shown.iter().map(|column| Cell::new(column.title).add_attribute(Attribute::Bold)));
    for item in items {
        table.add_row(shown.iter().map(|column| cell(&(column.text)(item))));
    }
    trimmed(table)
}

/// A line for each column.
pub(super) fn record<T>(item: &T, columns: &[Column<T>], format: Format, colour: bool) -> String {
    let mut table = empty(colour);
    for column in columns.iter().filter(|column| format == Format::Wide || !column.wide) {
        let title = Cell::new(column.title).add_attribute(Attribute::Bold);
        table.add_row([title, cell(&(column.text)(item))]);
    }
    trimmed(table)
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

fn cell(text: &str) -> Cell {
    let cell = Cell::new(neutral::line(text));
    match tone(text) {
        Some(colour) => cell.fg(colour),
        None => cell,
    }
}

/// The colour of a state, whatever column it stands in.
fn tone(text: &str) -> Option<Color> {
    match text {
        "COMPLETED" | "IDLE" | "created" | "applied" | "leader" => Some(Color::Green),
        "IN_PROGRESS" | "BUSY" | "updated" => Some(Color::Cyan),
        "PENDING" | "DRAINING" | "RELEASED" | "pending" | "paused" => Some(Color::Yellow),
        "FAILED" | "TIMEOUT" | "DEAD_LETTER" | "LOST" | "CANCELLED" | "OFFLINE" | "unknown"
        | "unaccounted" | "two_fates" => Some(Color::Red),
        _ => None,
    }
}

/// The table without the blanks at the end of its lines, columns two blanks apart.
fn trimmed(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
