//! What changes of named resources have in common: on which state they depend, and why they are refused.
//!
//! The version of a resource that counts none is the instant at which it was last changed, in microseconds; whoever changes it holds
//! its row, so no two changes have the same.

use chrono::{DateTime, Utc};

use crate::{DbError, connection::transaction};

/// Most names that a refusal tells.
pub(crate) const MOST_NAMED: i64 = 3;

/// The state in which a thing must be for a change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expected {
    /// Any, or none at all.
    #[default]
    Any,
    /// It must have this version.
    Version(i64),
    /// It must not be there.
    Absent,
}

impl Expected {
    /// Whether a thing that is there, and was last changed at `updated_at`, may be changed.
    pub(crate) fn of_present(self, updated_at: DateTime<Utc>) -> Result<(), ChangeError> {
        let found = version_of(updated_at);
        match self {
            Self::Version(wanted) if wanted != found => Err(ChangeError::OtherVersion(found)),
            Self::Absent => Err(ChangeError::Exists),
            Self::Any | Self::Version(_) => Ok(()),
        }
    }

    /// Whether a thing that is not there may be made.
    pub(crate) const fn of_absent(self) -> Result<(), ChangeError> {
        match self {
            Self::Version(_) => Err(ChangeError::NotFound),
            Self::Any | Self::Absent => Ok(()),
        }
    }
}

/// The version of a resource that was last changed then.
#[must_use]
pub const fn version_of(updated_at: DateTime<Utc>) -> i64 {
    updated_at.timestamp_micros()
}

/// Why a resource was not changed. Nothing was written then.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is none of that name.
    #[error("there is none of that name")]
    NotFound,
    /// There is one already, and there must not be.
    #[error("there is one of that name already")]
    Exists,
    /// It has another version than the change is for.
    #[error("it has version {0} by now")]
    OtherVersion(i64),
    /// It is part of every installation or tenant.
    #[error("it is built in")]
    BuiltIn,
    /// Other things need it.
    #[error("it is in use: {0}")]
    InUse(Users),
    /// The database said no.
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

/// What needs a thing that is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// Kind of thing, in the plural.
    pub kind: &'static str,
    /// Some of their names; none where they have none.
    pub names: Vec<String>,
    /// Whether there are more.
    pub more: bool,
}

impl Users {
    /// Those whose names were read, one more than are told at most; `None` if there is none.
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
        write!(f, "{kind} {}{}", names.join(", "), if *more { " and others" } else { "" })
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
        assert_eq!(Users::of("jobs", names(4)).unwrap().to_string(), "jobs 0, 1, 2 and others");
    }
}
