//! Kinds of schedule, as the operator configures them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobTypeInfo {
    /// Name, as in `job_type` of a job.
    pub name: String,
    /// Display name.
    pub display_name: String,
    /// Description.
    pub description: String,
    /// Whether it accepts new jobs.
    pub is_active: bool,
}

/// Settings of a kind of schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobTypeSpec {
    /// Whether it accepts new jobs; existing jobs continue.
    pub is_active: bool,
}
