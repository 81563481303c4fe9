//! The audit log, as it is read. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::enums::TimeSort;

/// A change that somebody made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEvent {
    /// Its number; they grow.
    pub id: i64,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// Who did it: an address or the public part of a key, or both.
    pub actor: String,
    /// What was done, such as `pause_job`.
    pub action: String,
    /// Kind of thing it was done to, such as `job`.
    pub target_type: String,
    /// Which one: an id, or a name where there is none.
    pub target_id: String,
    /// The thing before, without secrets; `None` if it was made.
    pub before: Option<Value>,
    /// The thing after, without secrets; `None` if it was removed.
    pub after: Option<Value>,
    /// Id of the request, which is in the log of the API too.
    pub request_id: Option<String>,
    /// Network address of who sent the request, as trusted proxies tell it; `None` for what no request did.
    #[serde(default)]
    pub address: Option<String>,
    /// Whether it is of the installation and of no tenant.
    pub is_installation: bool,
}

/// Parameters of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only by whom, exactly as it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Only what was done, such as `pause_job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Only to things of this kind, such as `job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_type: Option<String>,
    /// Only to this thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    /// Only at this instant or later: RFC 3339, a time on the clock of UTC, or a distance from now such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only before this instant, written in the same ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The order; newest first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
