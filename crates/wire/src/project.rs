//! Projects as they are kept, and how they are set. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a project is to be like. What is left out is as for a new project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectSpec {
    /// Name shown to people; the stable name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Free text; up to 2000 characters.
    #[serde(default)]
    pub description: String,
}

/// A project: a group of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    /// Identifier.
    pub id: Uuid,
    /// Stable name; jobs refer to it.
    pub name: String,
    /// Name shown to people.
    pub display_name: String,
    /// Free text.
    pub description: String,
    /// Whether nothing of it is dispatched or claimed.
    pub is_paused: bool,
    /// Why it is paused.
    pub pause_reason: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Parameters of the deletion of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteProjectQuery {
    /// Delete its jobs with it. Without it a project that has jobs is not deleted.
    #[serde(default)]
    pub with_jobs: bool,
}

/// Answer to deleting a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDeleted {
    /// Its name, which is free now.
    pub name: String,
    /// How many jobs were deleted with it; each can be restored into another project of the name.
    pub jobs: usize,
    /// How many runs waited and are cancelled. Those that run go on.
    pub cancelled: usize,
}
