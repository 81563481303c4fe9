//! Events: a list, and a stream that resumes at any position.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::enums::{EndReason, ResetReason};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Opaque position in the stream, for `after` and `Last-Event-ID`.
    pub id: String,
    /// Type, one of `EventType`; a newer API may send other words.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it was recorded, by the database clock.
    #[serde(serialize_with = "crate::instants::utc")]
    pub at: DateTime<Utc>,
    /// Project of the event, if any.
    pub project_id: Option<Uuid>,
    /// Job of the event, if any.
    pub job_id: Option<Uuid>,
    /// Run of the event, if any.
    pub run_id: Option<Uuid>,
    /// True for an event of the installation, outside every tenant.
    pub is_installation: bool,
    /// Details; the fields depend on the type.
    pub data: Map<String, Value>,
}

/// Parameters of the list of events, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only of the job with this name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only of the project with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Uuid>,
    /// Only of these types: words of `EventType`, separated by commas.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Only events at this instant or later: RFC 3339, a wall-clock time in UTC, or a distance from
    /// now such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only events before this instant, in the same forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the stream of events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventStreamQuery {
    /// Only of the job with this name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only of the project with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Uuid>,
    /// Only of these types: words of `EventType`, separated by commas.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Start with events of this instant instead of new events: RFC 3339, a wall-clock time in UTC,
    /// or a distance from now such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Continue after the message with this id. The header `Last-Event-ID` has the same meaning and
    /// takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A message of the stream. Its kind is in the member `message`; in server-sent events also in the
/// field `event`, which for an event holds its type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum StreamMessage {
    /// The stream is open; events from here on follow.
    Open {
        /// Start position.
        id: String,
    },
    /// An event.
    Event(Event),
    /// No matching event was recorded for a while.
    KeepAlive {
        /// Current position of the stream; valid like the id of an event.
        id: String,
    },
    /// Recorded events are delayed, because an older transaction may still record earlier ones, or
    /// because the database is not reachable.
    HeldBack {
        /// Duration of the delay, in seconds.
        seconds: u64,
    },
    /// The requested position is no longer valid. Events may be missing, so read the current state
    /// again.
    Reset {
        /// Reason.
        reason: ResetReason,
        /// New position of the stream.
        id: String,
    },
    /// The stream ends; open another one after the last id.
    End {
        /// Reason.
        reason: EndReason,
    },
}

impl StreamMessage {
    /// Returns the field `event` of server-sent events.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Open { .. } => "open",
            Self::Event(event) => &event.event_type,
            Self::KeepAlive { .. } => "keep_alive",
            Self::HeldBack { .. } => "held_back",
            Self::Reset { .. } => "reset",
            Self::End { .. } => "end",
        }
    }

    /// Returns the position of a reader after this message.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Open { id } | Self::KeepAlive { id } | Self::Reset { id, .. } => Some(id),
            Self::Event(event) => Some(&event.id),
            Self::HeldBack { .. } | Self::End { .. } => None,
        }
    }
}
