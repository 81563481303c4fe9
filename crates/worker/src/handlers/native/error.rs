//! The error type of native handlers.

use std::error::Error;
use std::fmt;

use sched_runtime::exit::describe;

use super::super::report::{ErrorClass, RetryHint};

/// The error of a native handler: the cause, its class, and whether another attempt is useful.
///
/// Every error type converts into it with `?`: implementations of [`Error`], `anyhow::Error`, and
/// plain text. The error then has the class `handler_error`, and the retry policy decides. It is
/// not an [`Error`] itself, so that all of these conversions exist.
///
/// ```
/// use sched_worker::HandlerError;
///
/// fn check(amount: i64) -> Result<(), HandlerError> {
///     if amount < 0 {
///         return Err(HandlerError::new("negative_amount", "an invoice cannot be negative").no_retry());
///     }
///     "42".parse::<u8>()?;
///     Ok(())
/// }
/// assert_eq!(check(-1).unwrap_err().class(), "negative_amount");
/// assert!(check(1).is_ok());
/// ```
pub struct HandlerError {
    class: ErrorClass,
    again: RetryHint,
    source: Box<dyn Error + Send + Sync>,
}

impl HandlerError {
    /// An error with its own class. Keep the word stable over releases: retry policies
    /// (`non_retryable`) and user filters name it. `snake_case` is usual.
    pub fn new(class: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class: ErrorClass::Own(class), again: RetryHint::AsThePolicySays, source: source.into() }
    }

    /// An error of the class `handler_error` that no further attempt can fix.
    pub fn fatal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class: ErrorClass::HandlerError, again: RetryHint::Never, source: source.into() }
    }

    /// The arguments are unusable, for every attempt.
    pub fn invalid_args(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class: ErrorClass::InvalidArgs, again: RetryHint::Never, source: source.into() }
    }

    /// Replaces the class; see [`HandlerError::new`].
    #[must_use]
    pub fn with_class(self, class: &'static str) -> Self {
        Self { class: ErrorClass::Own(class), ..self }
    }

    /// Excludes further attempts, regardless of the retry policy.
    #[must_use]
    pub fn no_retry(self) -> Self {
        Self { again: RetryHint::Never, ..self }
    }

    /// The class of the error.
    #[must_use]
    pub fn class(&self) -> &'static str {
        self.class.as_str()
    }

    /// Replaces the source by its text. Code of users writes the text.
    pub(super) fn described(self) -> Self {
        Self { source: describe(self.source.as_ref()).into(), ..self }
    }

    pub(super) fn into_parts(self) -> (ErrorClass, RetryHint, String) {
        (self.class, self.again, describe(self.source.as_ref()))
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(source: E) -> Self {
        Self { class: ErrorClass::HandlerError, again: RetryHint::AsThePolicySays, source: source.into() }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self.source.as_ref()))
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.class())
    }
}
