//! What happened, one event at a time: as a list, and as a stream that can be taken up again anywhere. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::enums::{EndReason, ResetReason};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Where it stands in the stream, for `after` and `Last-Event-ID`; says nothing else.
    pub id: String,
    /// What happened, one of `EventType`; a newer API may know more.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it was written, by the database's clock.
    pub at: DateTime<Utc>,
    /// The project it concerns, if any.
    pub project_id: Option<Uuid>,
    /// The job it concerns, if any.
    pub job_id: Option<Uuid>,
    /// The run it concerns, if any.
    pub run_id: Option<Uuid>,
    /// Whether it is of the installation and of no tenant.
    pub is_installation: bool,
    /// Details, by type.
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
    pub dispatch: Option<Uuid>,
    /// Only of these types: words of `EventType`, separated by commas.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Only what happened at this instant or later: RFC 3339, a time on the clock of UTC, or a distance from now such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only what happened before this instant, written in the same ways.
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
    pub dispatch: Option<Uuid>,
    /// Only of these types: words of `EventType`, separated by commas.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Begin with what happened at this instant, and not with what happens now: RFC 3339, a time on the clock of UTC, or a distance from
    /// now such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Go on after the message with this id. The header `Last-Event-ID` says the same and comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// One message of the stream. Its word stands in the member `message`; in server-sent events also in the field `event`, where an event has its
/// type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum StreamMessage {
    /// The stream is open: what happens from here on is told.
    Open {
        /// Where it begins.
        id: String,
    },
    /// Something happened.
    Event(Event),
    /// Nothing that is asked for has happened for a while.
    KeepAlive {
        /// How far the stream has come; as good as the id of an event.
        id: String,
    },
    /// Events are not told yet although they are written, because a transaction that began before them may still write some that come
    /// first, or because the database cannot be asked.
    HeldBack {
        /// For how long that has been so, in seconds.
        seconds: u64,
    },
    /// The position that was asked for is none any more: events may be missing, so look at what there is as if for the first time.
    Reset {
        /// Why.
        reason: ResetReason,
        /// Where the stream goes on.
        id: String,
    },
    /// The stream ends here; open another one after the last id.
    End {
        /// Why.
        reason: EndReason,
    },
}

impl StreamMessage {
    /// What stands in the field `event` of server-sent events.
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

    /// Where a reader stands after it.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Open { id } | Self::KeepAlive { id } | Self::Reset { id, .. } => Some(id),
            Self::Event(event) => Some(&event.id),
            Self::HeldBack { .. } | Self::End { .. } => None,
        }
    }
}
