//! Errors in a schedule, with a message that lets the author fix it.
//!
//! Not a transport format: the API converts `field` and `message` to problem+json, `schedctl`
//! prints `Display`. Plain data, no concurrency; construction cannot fail.

use std::fmt;

/// Longest quotation of a user's text in a message.
const QUOTE_LIMIT: usize = 40;

/// Why a schedule is rejected, or why its next fire time cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// A field has a value, or a shape, that is not allowed.
    #[error("{field}: {message}")]
    Invalid {
        /// Path of the field in the job, such as `schedule_config.minute`.
        field: String,
        /// The mistake and the accepted values.
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
    /// The cron engine failed on an accepted expression. This is a defect of the scheduler: disable
    /// the job, do not retry it.
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

    /// The mistake and the fix, without the field.
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

/// A user's text in back-quotes, shortened and with control characters escaped, for a one-line
/// message.
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
