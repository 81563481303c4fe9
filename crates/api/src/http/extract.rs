//! Extractors: bodies, query parameters and headers.
//!
//! Errors are problem documents that name the place of the mistake. Values are not judged here.

mod body;
pub(crate) mod limits;
mod preconditions;
mod query;
mod strict_json;

pub(crate) use body::{Body, MERGE_PATCH_JSON};
pub(crate) use preconditions::{Condition, Preconditions};
pub(crate) use query::{NoParameters, Query, no_parameters};

use crate::error::ApiError;

pub(crate) fn id(text: &str) -> Result<uuid::Uuid, ApiError> {
    text.parse().map_err(|error| ApiError::parameter("id", format!("is not a UUID: {error}")))
}
