//! Printing: data on standard output in the format that was asked for, words for people on standard error.
//!
//! A command says what its columns are; tables, JSON and YAML come from the same values, so they cannot disagree. Tables
//! have no lines and no colour when they do not go to a terminal, and nothing foreign in them reaches a terminal
//! unescaped. A reader that closes the pipe early (`| head`) ends the output and is no error.

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

pub(crate) use captured::{Captured, captured};
pub(crate) use cells::{duration, offset, or_dash, time, words};
pub(crate) use table::{Column, Lines};

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    Table,
    /// More columns.
    Wide,
    /// What the API answered, as JSON; a list is `{"items": [...], "next_cursor": ...}`
    Json,
    /// The same as YAML.
    Yaml,
}

/// Why data could not be printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    /// The value has no JSON form.
    #[error("could not write the answer as JSON")]
    Json(#[source] serde_json::Error),
    /// The value has no YAML form.
    #[error("could not write the answer as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
    /// Standard output is broken.
    #[error("could not write to standard output")]
    Io(#[source] io::Error),
}

/// Where a command's data goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    colour: bool,
}

impl Output {
    /// Standard output in `format`.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, colour: io::stdout().is_terminal() && colour_allowed() }
    }

    /// A list of things that no API answered, or `nothing` for people when it is empty.
    pub(crate) fn list<T: Serialize>(
        self,
        items: &[T],
        columns: &[Column<T>],
        nothing: &str,
    ) -> Result<(), ExitError> {
        self.items(&items, items, columns, nothing)
    }

    /// A list that the API answered, which programs get as it was.
    pub(crate) fn page<T: Serialize>(
        self,
        page: &Page<T>,
        columns: &[Column<T>],
        nothing: &str,
    ) -> Result<(), ExitError> {
        self.items(page, &page.items, columns, nothing)
    }

    /// The things in an answer that is more than a list of them: people get these, programs all of it.
    pub(crate) fn items<V: Serialize, T>(
        self,
        answer: &V,
        items: &[T],
        columns: &[Column<T>],
        nothing: &str,
    ) -> Result<(), ExitError> {
        if items.is_empty() && !nothing.is_empty() {
            tell(nothing);
        }
        let table = || table::list(items, columns, self.format, self.colour);
        self.print(&render(self, answer, table).map_err(failure)?)
    }

    /// One thing as the only line of a list of its kind.
    pub(crate) fn row<T: Serialize>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        self.items(item, std::slice::from_ref(item), columns, "")
    }

    /// One thing with all that is known of it, whether wide tables are asked for or not.
    pub(crate) fn whole<T: Serialize>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        let table = || table::record(item, columns, Format::Wide, self.colour);
        self.print(&render(self, item, table).map_err(failure)?)
    }

    /// One thing that is put together for people, and that programs are told in another way.
    pub(crate) fn table<T>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        self.print(&table::record(item, columns, self.format, self.colour))
    }

    /// Several such things.
    pub(crate) fn rows<T>(self, items: &[T], columns: &[Column<T>]) -> Result<(), ExitError> {
        self.print(&table::list(items, columns, self.format, self.colour))
    }

    /// Lines of a table whose items come one by one.
    pub(crate) fn lines<T: 'static>(self, columns: &'static [Column<T>]) -> Lines<T> {
        Lines::new(columns, self.format)
    }

    /// One thing, a line for each column.
    pub(crate) fn record<T: Serialize>(self, item: &T, columns: &[Column<T>]) -> Result<(), ExitError> {
        self.print(
            &render(self, item, || table::record(item, columns, self.format, self.colour))
                .map_err(failure)?,
        )
    }

    /// Text that is what it is in every format.
    pub(crate) fn print(self, text: &str) -> Result<(), ExitError> {
        if captured::takes_printed(text) {
            return Ok(());
        }
        let mut output = io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failure(PrintError::Io(error))),
            _ => Ok(()),
        }
    }

    /// A whole file: YAML, unless JSON is asked for.
    pub(crate) fn document<T: Serialize>(self, value: &T) -> Result<(), ExitError> {
        let format = if self.format == Format::Json { Format::Json } else { Format::Yaml };
        self.print(&render(Self { format, ..self }, value, String::new).map_err(failure)?)
    }

    /// Whether people will read it as a table.
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
            // The writer leaves some marks as they are. JSON is YAML too, and there every character can be escaped.
            if neutral::block(&text) == text { Ok(text) } else { json(value) }
        }
    }
}

fn json<T: Serialize>(value: &T) -> Result<String, PrintError> {
    let text = serde_json::to_string_pretty(value).map_err(PrintError::Json)?;
    Ok(format!("{}\n", neutral::json(&text)))
}

/// One line for people, on standard error.
pub(crate) fn tell(text: &str) {
    if !captured::takes_told(text) {
        // With standard error gone there is nobody left to tell.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Whether colours are welcome where there is a terminal; see <https://no-color.org>.
pub(crate) fn colour_allowed() -> bool {
    ProcessEnvironment.get("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests;
