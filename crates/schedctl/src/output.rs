//! Output: data on standard output in the selected format, messages on standard error. Tables, JSON
//! and YAML come from the same values. Foreign text is always escaped for a terminal. A closed pipe
//! (`| head`) is no error.

mod captured;
mod cells;
pub(crate) mod neutral;
mod table;

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use sched_runtime::config::{ProcessEnvironment, Source as _};
use sched_runtime::exit::ExitError;
use sched_wire::Page;
use serde::Serialize;

use crate::failure::failure;

pub(crate) use captured::{CommandOutput, captured, with_notices};
pub(crate) use cells::{age, count, duration, effective, join_list, offset, or_dash, time, yes_or_no};
pub(crate) use table::{Column, Lines};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns
    Table,
    /// Aligned columns, with additional ones
    Wide,
    /// JSON, as the API answers; a list is `{"items": [...], "next_cursor": ...}`
    Json,
    /// The same as YAML
    Yaml,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    #[error("could not write the answer as JSON")]
    Json(#[source] serde_json::Error),
    #[error("could not write the answer as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
    #[error("could not write to standard output")]
    Io(#[source] io::Error),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    colour: bool,
}

/// The items of an answer, as a table.
pub(crate) struct List<'a, T> {
    pub(crate) items: &'a [T],
    pub(crate) columns: &'a [Column<T>],
    /// Message if there are no items; none if it is empty.
    pub(crate) nothing: &'a str,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, colour: io::stdout().is_terminal() && colour_allowed() }
    }

    /// Without an API page; `nothing` if the list is empty.
    pub(crate) fn list<T: Serialize>(
        self,
        items: &[T],
        columns: &[Column<T>],
        nothing: &str,
    ) -> Result<(), ExitError> {
        self.items(&items, List { items, columns, nothing })
    }

    /// Prints a page of the API; JSON and YAML have the whole page.
    pub(crate) fn page<T: Serialize>(
        self,
        page: &Page<T>,
        columns: &[Column<T>],
        nothing: &str,
    ) -> Result<(), ExitError> {
        self.items(page, List { items: &page.items, columns, nothing })
    }

    /// Prints the items of a larger answer: tables have the items, JSON and YAML the whole answer.
    pub(crate) fn items<V: Serialize, T>(self, answer: &V, list: List<'_, T>) -> Result<(), ExitError> {
        let List { items, columns, nothing } = list;
        if items.is_empty() && !nothing.is_empty() {
            print_notice(nothing);
        }
        let table = || table::list(items, columns, self.format, self.colour);
        self.print(&render(self, answer, table).map_err(failure)?)
    }

    pub(crate) fn row<T: Serialize>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        self.items(item, List { items: std::slice::from_ref(item), columns, nothing: "" })
    }

    pub(crate) fn whole<T: Serialize>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        let table = || table::record(item, columns, Format::Wide, self.colour);
        self.print(&render(self, item, table).map_err(failure)?)
    }

    /// Only as a table; JSON and YAML are printed separately.
    pub(crate) fn table<T>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        self.print(&table::record(item, columns, self.format, self.colour))
    }

    pub(crate) fn rows<T>(self, items: &[T], columns: &[Column<T>]) -> Result<(), ExitError> {
        self.print(&table::list(items, columns, self.format, self.colour))
    }

    /// Prints lines of a table one by one.
    pub(crate) fn lines<T: 'static>(self, columns: &'static [Column<T>]) -> Lines<T> {
        Lines::new(columns, self.format)
    }

    pub(crate) fn record<T: Serialize>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        self.print(
            &render(self, item, || table::record(item, columns, self.format, self.colour))
                .map_err(failure)?,
        )
    }

    pub(crate) fn print(self, text: &str) -> Result<(), ExitError> {
        if captured::capture_printed(text) {
            return Ok(());
        }
        let mut output = io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failure(PrintError::Io(error))),
            _ => Ok(()),
        }
    }

    /// YAML, or JSON if requested.
    pub(crate) fn document<T: Serialize>(self, value: &T) -> Result<(), ExitError> {
        let format = if self.format == Format::Json { Format::Json } else { Format::Yaml };
        self.print(&render(Self { format, ..self }, value, String::new).map_err(failure)?)
    }

    /// One item of a stream: a line of JSON, or a YAML document.
    pub(crate) fn streamed<T: Serialize>(self, item: &T) -> Result<String, ExitError> {
        if self.format == Format::Yaml {
            let text = render(self, item, String::new).map_err(failure)?;
            return Ok(format!("---\n{text}"));
        }
        let text = serde_json::to_string(item).map_err(PrintError::Json).map_err(failure)?;
        Ok(format!("{}\n", neutral::json(&text)))
    }

    pub(crate) fn is_table(self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }
}

fn render<T: Serialize>(
    output: Output,
    value: &T,
    table: impl FnOnce() -> String,
) -> Result<String, PrintError> {
    match output.format {
        Format::Table | Format::Wide => Ok(table()),
        Format::Json => json(value),
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).map_err(PrintError::Yaml)?;
            // The YAML writer leaves some characters unescaped. JSON is valid YAML and can escape
            // every character.
            if neutral::block(&text) == text { Ok(text) } else { json(value) }
        }
    }
}

fn json<T: Serialize>(value: &T) -> Result<String, PrintError> {
    let text = serde_json::to_string_pretty(value).map_err(PrintError::Json)?;
    Ok(format!("{}\n", neutral::json(&text)))
}

pub(crate) fn print_notice(text: &str) {
    if !captured::capture_notice(text) {
        // If standard error is gone, no other place remains to report it.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// See <https://no-color.org>.
pub(crate) fn colour_allowed() -> bool {
    ProcessEnvironment.get("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests;
