//! Entity tags of the API's resources: a version number, or the time of the last change.
//!
//! `http/extract/preconditions.rs` reads the tags of `If-Match` and `If-None-Match`.

use sched_model::definitions::resources::version_of;

/// The time of the last change, for a resource without a version number.
pub(super) fn tag(updated_at: chrono::DateTime<chrono::Utc>) -> String {
    format!("\"{}\"", version_of(updated_at))
}

pub(super) fn version_tag(version: i64) -> String {
    format!("\"{version}\"")
}
