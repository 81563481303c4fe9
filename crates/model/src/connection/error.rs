//! What can go wrong with the database, by what the caller can do about it.
//!
//! The driver tells constraint names and a few kinds; for the rest it gives the server's message only. The one place
//! that looks at such messages is [`DbError::from`], and `tests/errors.rs` provokes each against a real server.

use diesel::result::{DatabaseErrorKind, Error as DieselError};

/// Why a database call did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// No connection could be had or the one in use broke. Whether a commit under way took effect is unknown.
    #[error("the database cannot be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing was done because somebody else was at it: serialization failure or deadlock. Trying again is right.
    #[error("the transaction collided with another")]
    Collision(#[source] DieselError),
    /// A statement or a lock took longer than the settings allow.
    #[error("the database did not answer in time")]
    TimedOut(#[source] DieselError),
    /// A unique key, foreign key or CHECK refused the write.
    #[error("constraint {name} refused the write")]
    Constraint {
        /// Name of the constraint.
        name: String,
        /// What kind it is.
        kind: ConstraintKind,
        /// The driver's error.
        #[source]
        source: DieselError,
    },
    /// The row that was asked for does not exist.
    #[error("no such row")]
    NotFound,
    /// This leader's term is over; nothing was written.
    #[error("the term of leadership is over")]
    TermOver,
    /// A row does not hold what our own code writes: someone else wrote it, or a defect did.
    #[error("{what} cannot be read: {reason}")]
    Corrupt {
        /// The row.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else the database or the driver said.
    #[error("the database refused the statement")]
    Other(#[source] DieselError),
}

/// Kinds of constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    /// A unique key.
    Unique,
    /// A foreign key.
    ForeignKey,
    /// A CHECK or NOT NULL.
    Check,
}

impl DbError {
    /// For what was read before a lock was had and is different under it: the transaction is run again, and reads it anew.
    #[must_use]
    pub(crate) const fn outdated() -> Self {
        Self::Collision(DieselError::RollbackTransaction)
    }

    /// Whether the whole transaction may simply be run again.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Collision(_))
    }

    /// Whether the database could not be asked at all, so that waiting may help.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// Whether the server takes no writes: it stands by, or was told not to.
    #[must_use]
    pub fn is_of_read_only_server(&self) -> bool {
        let Self::Unavailable(source) = self else { return false };
        matches!(
            source.downcast_ref(),
            Some(DieselError::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _))
        )
    }

    /// The error and its causes on one line, for logs.
    #[must_use]
    pub fn with_causes(&self) -> String {
        super::pool::with_causes(self)
    }

    /// The name of the constraint that refused the write, if one did.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Self::Constraint { name, .. } => Some(name),
            _ => None,
        }
    }
}

impl From<DieselError> for DbError {
    fn from(error: DieselError) -> Self {
        let DieselError::DatabaseError(kind, information) = &error else {
            return match error {
                DieselError::NotFound => Self::NotFound,
                DieselError::BrokenTransactionManager => Self::Unavailable(Box::new(error)),
                error => Self::Other(error),
            };
        };
        let constraint = |kind| {
            let name = information.constraint_name().unwrap_or("without a name").to_owned();
            Some((kind, name))
        };
        let refused = match kind {
            DatabaseErrorKind::UniqueViolation => constraint(ConstraintKind::Unique),
            DatabaseErrorKind::ForeignKeyViolation => constraint(ConstraintKind::ForeignKey),
            DatabaseErrorKind::CheckViolation | DatabaseErrorKind::NotNullViolation => {
                constraint(ConstraintKind::Check)
            }
            _ => None,
        };
        if let Some((kind, name)) = refused {
            return Self::Constraint { name, kind, source: error };
        }
        match kind {
            DatabaseErrorKind::SerializationFailure => Self::Collision(error),
            // A read-only server is one that is being failed over: as good as none.
            DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::ReadOnlyTransaction => {
                Self::Unavailable(Box::new(error))
            }
            _ => match classify(information.message()) {
                Class::Collision => Self::Collision(error),
                Class::TimeOut => Self::TimedOut(error),
                Class::Outage => Self::Unavailable(Box::new(error)),
                Class::Other => Self::Other(error),
            },
        }
    }
}

/// Sorts errors for which the driver gives no kind. The messages are those of a server that speaks English, which
/// [`super::pool`] asks for (`lc_messages`).
fn classify(message: &str) -> Class {
    const OUTAGES: &[&str] = &[
        "connection closed",
        "error communicating with the server",
        "terminating connection",
        "the database system is",
        "server closed the connection",
        "sorry, too many clients",
        "remaining connection slots are reserved",
        "could not receive data",
        // The server lacks something: nothing that is asked of it is wrong, and it may be asked again.
        "could not extend file",
        "could not write",
        "could not open file",
        "could not fsync",
        "could not read block",
        "could not resize shared memory",
        "No space left on device",
        "out of memory",
        "out of shared memory",
        "permission denied",
        "read-only transaction",
    ];
    // Who may not act as the owner of the tables will not be let to by waiting.
    const REFUSALS: &[&str] = &["permission denied to set role"];
    const TIME_OUTS: &[&str] = &["canceling statement due to", "idle-in-transaction"];
    if message.contains("deadlock detected") {
        Class::Collision
    } else if TIME_OUTS.iter().any(|text| message.contains(text)) {
        Class::TimeOut
    } else if REFUSALS.iter().any(|text| message.contains(text)) {
        Class::Other
    } else if OUTAGES.iter().any(|text| message.contains(text)) {
        Class::Outage
    } else {
        Class::Other
    }
}

/// What a message tells.
enum Class {
    Collision,
    TimeOut,
    Outage,
    Other,
}

impl From<diesel::ConnectionError> for DbError {
    fn from(error: diesel::ConnectionError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}
