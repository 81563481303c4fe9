//! Projects.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Settings of a project. Absent fields have the values of a new project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectSpec {
    /// Display name; the stable name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Free text; up to 2000 characters.
    #[serde(default)]
    pub description: String,
}

/// A project as written in a jobs file. A jobs file does not change whether the project is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectDefinition {
    /// Stable name; jobs refer to it.
    pub name: String,
    /// Display name; the stable name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Free text; up to 2000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A project: a group of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    /// Identifier.
    pub id: Uuid,
    /// Stable name; jobs refer to it.
    pub name: String,
    /// Display name.
    pub display_name: String,
    /// Free text.
    pub description: String,
    /// Whether it is paused: none of its runs are dispatched or claimed.
    pub is_paused: bool,
    /// Reason of the pause.
    pub pause_reason: Option<String>,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
}

/// Parameters of the deletion of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteProjectQuery {
    /// Delete its jobs as well. Otherwise a project with jobs is not deleted.
    #[serde(default)]
    pub with_jobs: bool,
}

/// Answer to deleting a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDeleted {
    /// Name of the project, which is free now.
    pub name: String,
    /// Number of deleted jobs; each can be restored into another project of this name.
    pub jobs: usize,
    /// Number of waiting runs that were cancelled. Running runs continue.
    pub cancelled: usize,
}
