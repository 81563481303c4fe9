use chrono::{DateTime, Utc};

use crate::error::ApiError;

pub(crate) use sched_model::domain::time_expression::moment;

/// In UTC.
pub(crate) fn parameter(
    name: &str,
    text: Option<&str>,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, ApiError> {
    let at = text.map(|text| moment(text, now, "UTC")).transpose();
    at.map_err(|message| ApiError::parameter(name, message))
}
