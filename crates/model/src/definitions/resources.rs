//! Changes of named resources: the required state, and the errors.
//!
//! The version of a resource without a version column is its last change in microseconds. Every
//! change locks the row, so no two changes have the same version.

use chrono::{DateTime, Utc};

use crate::{DbError, connection::transaction};

/// Maximum number of names in an error.
pub(crate) const MOST_NAMED: i64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expected {
    /// Any state; it need not exist.
    #[default]
    Any,
    Version(i64),
    Absent,
}

impl Expected {
    pub(crate) fn of_present(self, updated_at: DateTime<Utc>) -> Result<(), ChangeError> {
        let found = version_of(updated_at);
        match self {
            Self::Version(wanted) if wanted != found => Err(ChangeError::OtherVersion(found)),
            Self::Absent => Err(ChangeError::Exists),
            Self::Any | Self::Version(_) => Ok(()),
        }
    }

    pub(crate) const fn of_absent(self) -> Result<(), ChangeError> {
        match self {
            Self::Version(_) => Err(ChangeError::NotFound),
            Self::Any | Self::Absent => Ok(()),
        }
    }
}

#[must_use]
pub const fn version_of(updated_at: DateTime<Utc>) -> i64 {
    updated_at.timestamp_micros()
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("no resource has that name")]
    NotFound,
    #[error("a resource of that name already exists")]
    Exists,
    #[error("the current version is {0}")]
    OtherVersion(i64),
    #[error("the resource is built in")]
    BuiltIn,
    #[error("the resource is in use: {0}")]
    InUse(Users),
    #[error(transparent)]
    Database(#[from] DbError),
}

impl From<diesel::result::Error> for ChangeError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl transaction::TransactionError for ChangeError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_retryable())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// Kind of the users, in the plural.
    pub kind: &'static str,
    /// Some of their names, if any.
    pub names: Vec<String>,
    pub more: bool,
}

impl Users {
    /// From at most [`MOST_NAMED`] names and one more; `None` if empty.
    pub(crate) fn of(kind: &'static str, mut names: Vec<String>) -> Option<Self> {
        let most = usize::try_from(MOST_NAMED).unwrap_or(usize::MAX);
        let more = names.len() > most;
        names.truncate(most);
        (!names.is_empty()).then_some(Self { kind, names, more })
    }
}

impl std::fmt::Display for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, names, more } = self;
        write!(f, "{kind} {}{}", names.join(", "), if *more { " and more" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_in_the_expected_state_and_in_no_other() {
        let now = DateTime::UNIX_EPOCH + chrono::TimeDelta::microseconds(7);
        assert_eq!(version_of(now), 7);
        for (expected, present, absent) in [
            (Expected::Any, true, true),
            (Expected::Version(7), true, false),
            (Expected::Version(8), false, false),
            (Expected::Absent, false, true),
        ] {
            assert_eq!((expected.of_present(now).is_ok(), expected.of_absent().is_ok()), (present, absent));
        }
    }

    #[test]
    fn some_of_those_that_use_a_thing_are_named() {
        let names = |count: usize| (0..count).map(|n| n.to_string()).collect();
        assert_eq!(Users::of("jobs", names(0)), None);
        assert_eq!(Users::of("jobs", names(3)).unwrap().to_string(), "jobs 0, 1, 2");
        assert_eq!(Users::of("jobs", names(4)).unwrap().to_string(), "jobs 0, 1, 2 and more");
    }
}
