//! Converts errors to the exit codes of `sched_runtime::exit`. Pure.

use sched_runtime::exit::{self, BoxError, ExitError};

pub(crate) type CommandResult = Result<u8, ExitError>;

/// Wrong flag or invalid file.
pub(crate) fn usage(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::USAGE, source)
}

pub(crate) fn failure(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::FAILURE, source)
}

pub(crate) fn too_late(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::TOO_LATE, source)
}

pub(crate) fn database(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::DATABASE, source)
}

pub(crate) fn schema(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::SCHEMA, source)
}

pub(crate) fn listen(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::LISTEN, source)
}
