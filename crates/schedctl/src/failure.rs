//! Converts errors to exit codes.
//!
//! The codes are defined in `sched_runtime::exit`. These functions attach a code where the error
//! occurs. Pure.

use sched_runtime::exit::{self, BoxError, ExitError};

/// The result of a command: its exit code, or an error with one.
pub(crate) type CommandResult = Result<u8, ExitError>;

/// A wrong flag or an invalid file, which the user can fix.
pub(crate) fn usage(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::USAGE, source)
}

/// Any error without a specific code.
pub(crate) fn failure(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::FAILURE, source)
}

/// The awaited result did not arrive in time.
pub(crate) fn too_late(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::TOO_LATE, source)
}

/// The database is unreachable.
pub(crate) fn database(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::DATABASE, source)
}

/// The schema does not match this program.
pub(crate) fn schema(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::SCHEMA, source)
}

/// The port is not available.
pub(crate) fn listen(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::LISTEN, source)
}
