//! Taking requests apart: bodies, parameters, headers.
//!
//! Everything here fails with a problem document that says where the mistake is, which the extractors of the framework do
//! not. What values mean is not judged here.

mod body;
mod headers;
pub(crate) mod limits;
mod query;
mod strict_json;

pub(crate) use body::{Body, MERGE_PATCH_JSON};
pub(crate) use headers::{Condition, condition, expected, if_match};
pub(crate) use query::{NoParameters, Query};

use crate::error::ApiError;

/// An id in a path.
pub(crate) fn id(text: &str) -> Result<uuid::Uuid, ApiError> {
    text.parse().map_err(|error| ApiError::parameter("id", format!("is not a UUID: {error}")))
}
