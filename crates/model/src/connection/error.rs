//! Database errors, by what the caller can do about them.
//!
//! The driver reports constraint names and a few kinds. Only [`DbError::from`] reads server
//! messages; `tests/db/connection/errors.rs` provokes each on a real server.

use diesel::result::{DatabaseErrorKind, Error as DieselError};

#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// No connection, or the current one broke. Whether a commit in flight took effect is unknown.
    #[error("the database cannot be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Serialization failure or deadlock: nothing was written; run the transaction again.
    #[error("the transaction conflicted with another")]
    Collision(#[source] DieselError),
    /// A statement or a lock exceeded the timeout in the settings.
    #[error("the database did not answer in time")]
    TimedOut(#[source] DieselError),
    #[error("constraint {name} rejected the write")]
    Constraint {
        name: String,
        kind: ConstraintKind,
        #[source]
        source: DieselError,
    },
    #[error("no such row")]
    NotFound,
    /// The term of this leader is over; nothing was written.
    #[error("the term of leadership is over")]
    TermOver,
    /// A value that this program never writes: from another program or a defect.
    #[error("{what} cannot be read: {reason}")]
    Corrupt { what: String, reason: String },
    /// The login lacks a right. The rows of the statement are not the cause, and a grant is the fix.
    #[error("the database login of this program lacks a right")]
    NoPermission(#[source] DieselError),
    #[error("the database rejected the statement")]
    Other(#[source] DieselError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    Unique,
    ForeignKey,
    /// CHECK or NOT NULL.
    Check,
}

impl DbError {
    /// For data that changed between a read and the lock: the transaction runs again.
    #[must_use]
    pub(crate) const fn outdated() -> Self {
        Self::Collision(DieselError::RollbackTransaction)
    }

    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Collision(_))
    }

    /// Whether no query is possible, so that waiting may help.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// A standby, or a server set to read-only.
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
            // A read-only server is being failed over: it counts as no server.
            DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::ReadOnlyTransaction => {
                Self::Unavailable(Box::new(error))
            }
            _ => match classify(information.message()) {
                Class::Collision => Self::Collision(error),
                Class::TimeOut => Self::TimedOut(error),
                Class::Outage => Self::Unavailable(Box::new(error)),
                Class::NoPermission => Self::NoPermission(error),
                Class::Other => Self::Other(error),
            },
        }
    }
}

/// For errors without a kind. Messages are in English: [`super::pool`] sets `lc_messages`.
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
        // The server lacks a resource: the statement can be repeated.
        "could not extend file",
        "could not write",
        "could not open file",
        "could not fsync",
        "could not read block",
        "could not resize shared memory",
        "No space left on device",
        "out of memory",
        "out of shared memory",
        "read-only transaction",
    ];
    // A file that the server may not open is an outage, with a capital P.
    const NO_PERMISSION: &[&str] = &["permission denied", "must be owner of", "row-level security policy"];
    const TIME_OUTS: &[&str] = &["canceling statement due to", "idle-in-transaction"];
    if message.contains("deadlock detected") {
        Class::Collision
    } else if TIME_OUTS.iter().any(|text| message.contains(text)) {
        Class::TimeOut
    } else if NO_PERMISSION.iter().any(|text| message.contains(text)) {
        Class::NoPermission
    } else if OUTAGES.iter().any(|text| message.contains(text)) {
        Class::Outage
    } else {
        Class::Other
    }
}

enum Class {
    Collision,
    TimeOut,
    Outage,
    NoPermission,
    Other,
}

impl From<diesel::ConnectionError> for DbError {
    fn from(error: diesel::ConnectionError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}
