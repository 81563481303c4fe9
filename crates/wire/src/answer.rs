//! Answers that are not things themselves: pages of them, what `apply` did, and problem documents.
//!
//! Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::PROBLEMS;
use crate::job::FieldChange;

/// A piece of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// To be sent as `cursor` for the next piece; `None` when this was the last.
    pub next_cursor: Option<String>,
    /// How many items the list has in all; only if that was asked for, and there are no more than 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// How many items it has at least; only if their number was asked for, and there are more than 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_is_at_least: Option<u64>,
}

/// What `apply` did with each item: queues, calendars, functions, templates, jobs, notification channels and rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyResult {
    /// One for each item of the manifest, each kind in its order.
    pub results: Vec<Applied>,
    /// Whether nothing of it was kept, because that was asked for.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `apply` did with one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// What kind of thing it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its identifier; of what a dry run would make, one that will not be its. `None` for queues, which have their name alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// What was done.
    pub change: Change,
    /// Its version after it; `None` for queues and task functions, which have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// What an update made another. Values of variables of processes and headers of requests may be secrets: that they differ is told, and how is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
}

/// Kinds of thing that can be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
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

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The thing is new.
    Created,
    /// It was different before.
    Updated,
    /// It was just so before.
    Unchanged,
}

/// Why a request was refused or failed: a problem document after RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Where it is told what the `code` means and what to do: a reference relative to the API, `/api/docs/problems#` and the code.
    #[serde(rename = "type", default = "about_blank")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The status of the response.
    pub status: u16,
    /// What is wrong with this request, for people.
    pub detail: String,
    /// Path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What is wrong, for programs; a word that never changes.
    pub code: String,
    /// What is wrong with each field; empty when the problem has no field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ProblemError>,
    /// Id of the request, which is in the log of the API too.
    #[serde(default)]
    pub request_id: String,
    /// Id of the trace that the request is part of: that of its `traceparent`, or a new one. In the log of the API too.
    #[serde(default)]
    pub trace_id: String,
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemError {
    /// JSON pointer into the body, such as `/jobs/3/timezone`, empty for the whole of it; the bare name of a parameter or
    /// header when it does not begin with `/`.
    pub pointer: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

fn about_blank() -> String {
    "about:blank".to_owned()
}

impl Problem {
    /// A problem of a status, without fields.
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
