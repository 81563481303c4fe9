//! The audit log.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::enums::TimeSort;

/// A recorded change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEvent {
    /// Sequence number, ascending.
    pub id: i64,
    /// Time of the change, by the database clock.
    #[serde(serialize_with = "crate::instants::utc")]
    pub at: DateTime<Utc>,
    /// Author of the change: an e-mail address, the public part of a key, or both.
    pub actor: String,
    /// Action, such as `pause_job`.
    pub action: String,
    /// Kind of the changed object, such as `job`.
    pub target_type: String,
    /// Id of the changed object; its name if the kind has no ids.
    pub target_id: String,
    /// The object before the change, without secrets; `None` if it was created.
    pub before: Option<Value>,
    /// The object after the change, without secrets; `None` if it was removed.
    pub after: Option<Value>,
    /// Id of the request, also in the log of the API.
    pub request_id: Option<String>,
    /// Network address of the client, as trusted proxies report it; `None` for a change without a
    /// request.
    #[serde(default)]
    pub address: Option<String>,
    /// True for a change of the installation, outside every tenant.
    pub is_installation: bool,
}

/// Parameters of the list of audit events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only changes by this author, exactly as shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Only this action, such as `pause_job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Only changes of this kind of object, such as `job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_type: Option<String>,
    /// Only changes of the object with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    /// Only at this instant or later: RFC 3339, a wall-clock time in UTC, or a distance from now
    /// such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only before this instant, in the same forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Order; newest first when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
