//! Kinds of schedule, as an operator sees and sets them. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobTypeInfo {
    /// The kind, as jobs name it.
    pub name: String,
    /// Name shown to people.
    pub display_name: String,
    /// What it means.
    pub description: String,
    /// Whether new jobs may be of this kind.
    pub is_active: bool,
}

/// What a kind of schedule is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobTypeSpec {
    /// Whether new jobs may be of this kind; those there are go on in any case.
    pub is_active: bool,
}
