//! Templates of jobs.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A template as written in a file or a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateSpec {
    /// Stable name.
    pub name: String,
    /// Free text; up to 2000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Parameters of a job of this template, by name; up to 50.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterSpec>,
    /// The fields of a job. `{{name}}` in a text is replaced by the value of a parameter; a text
    /// that consists of it becomes the value, with its type. Without `name` each job is named by
    /// its client.
    pub job: Map<String, Value>,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterSpec {
    /// Type of its values.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// Description, for people; up to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Default value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether a value is required; when absent, it is required if it has no default. Texts that
    /// consist of an optional parameter without a value are left out of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Allowed values; any value of its type when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
}

/// Type of the values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A list.
    Array,
    /// An object.
    Object,
}

/// A stored template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Template {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Parameters of a job of this template, by name.
    pub parameters: BTreeMap<String, ParameterSpec>,
    /// The fields of a job, with placeholders.
    pub job: Map<String, Value>,
    /// Version; grows with every change.
    pub version: i64,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// Component or e-mail address that created it.
    pub created_by: String,
    /// When it was last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
    /// Component or e-mail address that last changed it.
    pub updated_by: String,
}

/// A new job of a template.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstantiateRequest {
    /// Name of the job; the name in the template when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Values of the parameters.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Whether to replace the job of that name if it was created from this template; otherwise the
    /// name is a conflict.
    #[serde(default)]
    pub replace: bool,
}

/// Origin of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MadeFrom {
    /// Name of the template.
    pub template: String,
    /// Version of the template at that time.
    pub version: i64,
    /// The given parameters.
    pub parameters: Map<String, Value>,
}
