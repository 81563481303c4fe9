//! Exit codes, the mapping from errors to them, and the text of an error with its causes.
//!
//! The numbers are part of the interface of all programs and never change their meaning.

use std::error::Error;
use std::fmt::Write as _;

/// Success, or the daemon stopped on request.
pub const OK: u8 = 0;
/// Any other failure.
pub const FAILURE: u8 = 1;
/// A wrong flag, an unreadable or invalid configuration, invalid input.
pub const USAGE: u8 = 2;
/// The database is unreachable or rejects the connection.
pub const DATABASE: u8 = 3;
/// The database's schema is missing, or older or newer than necessary.
pub const SCHEMA: u8 = 4;
/// The listen address or port is not available.
pub const LISTEN: u8 = 5;
/// The API cannot be reached.
pub const REMOTE: u8 = 6;
/// The API rejected the request.
pub const REFUSED: u8 = 7;
/// The awaited object ended in a different state.
pub const ENDED_OTHERWISE: u8 = 8;
/// The awaited event did not occur in time.
pub const TOO_LATE: u8 = 9;

pub type BoxError = Box<dyn Error + Send + Sync>;

pub trait ExitStatus {
    fn exit_code(&self) -> u8;
}

/// An error that leaves `main`, with its exit code.
///
/// It is no [`Error`] itself, so that every error with an [`ExitStatus`] converts into it with `?`.
#[derive(Debug)]
pub struct ExitError {
    code: u8,
    source: BoxError,
}

impl ExitError {
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

/// `error: cause: cause`. Omits a cause when the text before it ends with it: many libraries repeat
/// the source in an error.
#[must_use]
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
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
