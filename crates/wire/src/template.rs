//! Templates, from which jobs are made, as a person writes them and as they are kept. Plain data.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A template as a person writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateSpec {
    /// Stable name.
    pub name: String,
    /// Free text; up to 2000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What may be said of a job that is made from it, by name; up to 50.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterSpec>,
    /// The fields of a job. `{{name}}` in a text stands for the value of a parameter; a text that is nothing else becomes the value
    /// itself, with its type. `name` may be left out: then each job is given one.
    pub job: Map<String, Value>,
}

/// What may be said of a job that is made from a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterSpec {
    /// The kind of value it takes.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// What it is for, for people; up to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its value when none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether a value must be given; when absent, unless there is a default. What stands at the places of one that need not be given
    /// and has no default is left out of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// The only values that it takes; any of its type when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
}

/// What kind of value a parameter takes.
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

/// A template as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Template {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// What may be said of a job that is made from it, by name.
    pub parameters: BTreeMap<String, ParameterSpec>,
    /// The fields of a job, with places for the parameters.
    pub job: Map<String, Value>,
    /// Grows with every change.
    pub version: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Which component or whose e-mail created it.
    pub created_by: String,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// Which component or whose e-mail changed it.
    pub updated_by: String,
}

/// A job to be made from a template.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstantiateRequest {
    /// Name of the job; the one that the template gives when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Values of the parameters.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Whether to write over the job of that name, if there is one that was made from this template; otherwise its name is taken.
    #[serde(default)]
    pub replace: bool,
}

/// What a job was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MadeFrom {
    /// Name of the template.
    pub template: String,
    /// Its version then.
    pub version: i64,
    /// The parameters that were given.
    pub parameters: Map<String, Value>,
}
