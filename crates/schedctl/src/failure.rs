//! How errors of this program become exit codes.
//!
//! The table of codes is the runtime's; this module holds the shortcuts that commands use, so that every place that
//! fails also says which code that is. Pure.

use sched_runtime::exit::{self, BoxError, ExitError};

/// What every command ends with: its exit code, or an error that knows one.
pub(crate) type CommandResult = Result<u8, ExitError>;

/// A wrong flag, a bad file: the user can mend it.
pub(crate) fn usage(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::USAGE, source)
}

/// Anything that no other code describes.
pub(crate) fn failure(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::FAILURE, source)
}

/// What was waited for did not come in time.
pub(crate) fn too_late(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::TOO_LATE, source)
}

/// The database cannot be reached.
pub(crate) fn database(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::DATABASE, source)
}

/// The schema is not the one this program needs.
pub(crate) fn schema(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::SCHEMA, source)
}

/// The port to listen on is not available.
pub(crate) fn listen(source: impl Into<BoxError>) -> ExitError {
    ExitError::new(exit::LISTEN, source)
}
