//! Envelopes of answers: pages, results of `apply`, problem documents.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::PROBLEMS;
use crate::definitions::job::FieldChange;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// Send it as `cursor` for the next page; `None` on the last page.
    pub next_cursor: Option<String>,
    /// Set if the search for the rare items of a filter took too long: the page has all matches up
    /// to about this instant, in the list's order. `next_cursor` continues the search.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub searched_until: Option<DateTime<Utc>>,
    /// Number of items of the whole list; only with `total=true`, and up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Lower bound of the number of items; only with `total=true`, and above 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_is_at_least: Option<u64>,
}

impl<T> Page<T> {
    /// A page of a complete search, without a total.
    #[must_use]
    pub const fn new(items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { items, next_cursor, searched_until: None, total: None, total_is_at_least: None }
    }
}

/// Results of `apply`, one per item of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyResult {
    /// One entry per item of the manifest; each kind in its order.
    pub results: Vec<Applied>,
    /// Secrets that the definitions name and that do not exist: runs that need one fail until it is
    /// set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_secrets: Vec<String>,
    /// True if the request was a dry run, so that nothing was stored.
    #[serde(default)]
    pub dry_run: bool,
}

/// The result of `apply` for one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// Kind of the item.
    pub kind: Kind,
    /// Name of the item.
    pub name: String,
    /// Identifier. In a dry run a new item has an identifier that is not used later. `None` for
    /// queues, which have only a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// Change that was stored.
    pub change: Change,
    /// Version after the write; `None` for queues and task functions, which have no versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Fields that an update changed. The change of a value that may be a secret, by its name, is
    /// reported without the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
}

/// Kinds of item in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A project.
    Project,
    /// A queue.
    Queue,
    /// A calendar.
    Calendar,
    /// A task function.
    TaskFunction,
    /// A template.
    Template,
    /// A job.
    Job,
    /// A notification channel.
    NotificationChannel,
    /// A notification rule.
    NotificationRule,
}

/// Effect of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The item is new.
    Created,
    /// The item had other settings.
    Updated,
    /// The item already had these settings.
    Unchanged,
}

/// A problem document (RFC 9457): why a request was rejected or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Link to the description of `code`, relative to the API: `/api/docs/problems#` and the code.
    #[serde(rename = "type", default = "about_blank")]
    pub kind: String,
    /// Name of the status.
    pub title: String,
    /// The status of the response.
    pub status: u16,
    /// Description of this problem, for people.
    pub detail: String,
    /// Path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Stable code of the problem, for programs.
    pub code: String,
    /// Problems of single fields; empty when no field is at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ProblemError>,
    /// Id of the request, also in the log of the API.
    #[serde(default)]
    pub request_id: String,
    /// Id of the trace of the request: from its `traceparent`, or new. Also in the log of the API.
    #[serde(default)]
    pub trace_id: String,
}

/// A problem of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemError {
    /// JSON pointer into the body, such as `/jobs/3/timezone`; empty for the whole body. A name
    /// without a leading `/` is a parameter or a header.
    pub pointer: String,
    /// The problem, and the accepted values.
    pub message: String,
}

fn about_blank() -> String {
    "about:blank".to_owned()
}

impl Problem {
    /// Returns a problem without fields.
    #[must_use]
    pub fn new(
        status: u16,
        title: impl Into<String>,
        code: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let code = code.into();
        Self {
            kind: format!("{PROBLEMS}#{code}"),
            title: title.into(),
            status,
            detail: detail.into(),
            instance: None,
            code,
            errors: Vec::new(),
            request_id: String::new(),
            trace_id: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_a_newer_api_is_still_read() {
        let text = r#"{"type":"about:blank","title":"Conflict","status":409,"detail":"taken","code":"taken","hint":"x"}"#;
        let problem: Problem = serde_json::from_str(text).unwrap();
        assert_eq!((problem.status, problem.errors.len()), (409, 0));
    }

    #[test]
    fn kinds_and_changes_are_sent_as_words() {
        let applied = Applied {
            kind: Kind::TaskFunction,
            name: "f".into(),
            id: Some(Uuid::nil()),
            change: Change::Unchanged,
            version: None,
            changes: Vec::new(),
        };
        let json = serde_json::to_value(applied).unwrap();
        assert_eq!((&json["kind"], &json["change"]), (&"task_function".into(), &"unchanged".into()));
        assert!(json.get("version").is_none() && json.get("changes").is_none());
    }
}
