//! Exit codes, and the mapping from errors to them.
//!
//! Scripts and service managers distinguish failures by these numbers. They are part of the
//! interface and never change their meaning. Daemons and `schedctl` use the same table. The module
//! also formats an error with its causes; it does not print and does not end the process.

use std::error::Error;
use std::fmt::Write as _;

/// Success, or the daemon stopped on request.
pub const OK: u8 = 0;
/// Any failure that no other code describes.
pub const FAILURE: u8 = 1;
/// A wrong flag, an unreadable or invalid configuration, invalid input.
pub const USAGE: u8 = 2;
/// The database cannot be reached or refuses the connection.
pub const DATABASE: u8 = 3;
/// The database's schema is missing, older or newer than this program needs.
pub const SCHEMA: u8 = 4;
/// The address or port to listen on is not available.
pub const LISTEN: u8 = 5;
/// The API cannot be reached.
pub const REMOTE: u8 = 6;
/// The API rejected the request.
pub const REFUSED: u8 = 7;
/// The awaited object ended in a different state.
pub const ENDED_OTHERWISE: u8 = 8;
/// The awaited event did not occur in time.
pub const TOO_LATE: u8 = 9;

/// Any error that can cross tasks.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Errors that have an exit code.
pub trait ExitStatus {
    /// One of the constants of this module.
    fn exit_code(&self) -> u8;
}

/// An error that leaves `main`, with its exit code.
///
/// It is deliberately not an [`Error`] itself, so that every error with an [`ExitStatus`] converts
/// into it with `?`.
#[derive(Debug)]
pub struct ExitError {
    code: u8,
    source: BoxError,
}

impl ExitError {
    /// Assigns `code`, one of the constants of this module, to `source`.
    pub fn new(code: u8, source: impl Into<BoxError>) -> Self {
        Self { code, source: source.into() }
    }

    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }

    #[must_use]
    pub fn source(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.source.as_ref()
    }

    /// The error with all its causes, on one line.
    #[must_use]
    pub fn describe(&self) -> String {
        describe(self.source.as_ref())
    }
}

impl<E: ExitStatus + Error + Send + Sync + 'static> From<E> for ExitError {
    fn from(error: E) -> Self {
        Self { code: error.exit_code(), source: Box::new(error) }
    }
}

/// `error: cause: cause`, each once.
///
/// A cause is omitted when the text before it already ends with it: errors of other libraries often
/// repeat their source.
#[must_use]
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open {name}")]
    struct Outer {
        name: &'static str,
        #[source]
        source: Inner,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("refused: {0}")]
    struct Inner(#[source] std::num::ParseIntError);

    impl ExitStatus for Outer {
        fn exit_code(&self) -> u8 {
            DATABASE
        }
    }

    fn fails() -> Result<(), ExitError> {
        let cause = "x".parse::<u8>().map(|_| ()).map_err(Inner);
        cause.map_err(|source| Outer { name: "it", source })?;
        Ok(())
    }

    #[test]
    fn an_error_with_a_status_converts_and_every_cause_is_said_once() {
        let error = fails().unwrap_err();
        assert_eq!(error.code(), DATABASE);
        assert_eq!(error.describe(), "cannot open it: refused: invalid digit found in string");
    }

    #[test]
    fn all_codes_differ() {
        let codes = [OK, FAILURE, USAGE, DATABASE, SCHEMA, LISTEN, REMOTE, REFUSED];
        let unique: std::collections::HashSet<_> = codes.into_iter().collect();
        assert_eq!(unique.len(), codes.len());
    }
}
