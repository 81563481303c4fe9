//! What can be wrong with a schedule, said so that the person who wrote it can mend it.
//!
//! Not a transport format: the API turns `field` and `message` into problem+json, `schedctl` prints `Display`.
//! Plain data, no concurrency; building one cannot fail.

use std::fmt;

/// Longest piece of a user's text that a message repeats.
const QUOTE_LIMIT: usize = 40;

/// Why a schedule is refused, or why its next fire time cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// A field has a value, or a shape, that is not allowed.
    #[error("{field}: {message}")]
    Invalid {
        /// Path of the field in the job, such as `schedule_config.minute`.
        field: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// The expression is well-formed but matches no date that exists.
    #[error("{field}: {message}")]
    NeverFires {
        /// Path of the field in the job.
        field: String,
        /// Which expression, and why it never fires.
        message: String,
    },
    /// The cron engine failed on an accepted expression. A defect of ours: the job is to be disabled, not retried.
    #[error("{field}: {message}")]
    Engine {
        /// Path of the field in the job.
        field: String,
        /// Which expression, and what the engine did.
        message: String,
    },
}

impl ScheduleError {
    /// Path of the field that is wrong, such as `schedule_config.minute` or `timezone`.
    pub fn field(&self) -> &str {
        match self {
            Self::Invalid { field, .. } | Self::NeverFires { field, .. } | Self::Engine { field, .. } => {
                field
            }
        }
    }

    /// What is wrong and how to mend it, without the field.
    pub fn message(&self) -> &str {
        match self {
            Self::Invalid { message, .. }
            | Self::NeverFires { message, .. }
            | Self::Engine { message, .. } => message,
        }
    }

    pub(super) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }

    /// The same error at another place: `rename` maps the present field and message to new ones.
    pub(super) fn relocated(self, rename: impl FnOnce(String, String) -> (String, String)) -> Self {
        match self {
            Self::Invalid { field, message } => {
                let (field, message) = rename(field, message);
                Self::Invalid { field, message }
            }
            Self::NeverFires { field, message } => {
                let (field, message) = rename(field, message);
                Self::NeverFires { field, message }
            }
            Self::Engine { field, message } => {
                let (field, message) = rename(field, message);
                Self::Engine { field, message }
            }
        }
    }
}

/// A user's text in back-quotes, shortened and with control characters escaped, fit for a one-line message.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`")?;
        for (position, character) in self.0.chars().enumerate() {
            if position == QUOTE_LIMIT {
                f.write_str("…")?;
                break;
            }
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        f.write_str("`")
    }
}
