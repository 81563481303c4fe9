//! Parameters that hold an instant as people write it.

use chrono::{DateTime, Utc};

use crate::error::ApiError;

pub(crate) use sched_model::domain::time_expression::moment;

/// An instant that a parameter names, on the clock of UTC.
pub(crate) fn parameter(
    name: &str,
    text: Option<&str>,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, ApiError> {
    let at = text.map(|text| moment(text, now, "UTC")).transpose();
    at.map_err(|message| ApiError::parameter(name, message))
}
