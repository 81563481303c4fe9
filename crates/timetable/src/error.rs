//! Errors in a schedule, with a message that lets the author fix it.

use std::fmt;

const QUOTE_LIMIT: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("{field}: {message}")]
    Invalid {
        /// Path in the job, such as `schedule_config.minute`.
        field: String,
        message: String,
    },
    /// Well-formed, but matches no date that exists.
    #[error("{field}: {message}")]
    NeverFires { field: String, message: String },
    /// The cron engine failed on an accepted expression, a defect of the scheduler: disable the
    /// job, do not retry it.
    #[error("{field}: {message}")]
    Engine { field: String, message: String },
}

impl ScheduleError {
    pub fn field(&self) -> &str {
        match self {
            Self::Invalid { field, .. } | Self::NeverFires { field, .. } | Self::Engine { field, .. } => {
                field
            }
        }
    }

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

    /// `rename` maps field and message to new ones.
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

/// A user's text in back-quotes, shortened and with control characters escaped.
pub(super) struct QuotedText<'a>(pub(super) &'a str);

impl fmt::Display for QuotedText<'_> {
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
