//! The event stream for clients: one reader for all of them ([`hub`]), the positions that clients
//! keep ([`position`]), the messages to one client ([`listener`]), and reads of old events that do
//! not block the database ([`reads`]). The routes own the transport.

pub(crate) mod hub;
pub(crate) mod listener;
pub(crate) mod position;
pub(crate) mod reads;

pub(crate) use hub::Hub;
pub(crate) use position::Position;

use crate::convert::enums::state_word;
use sched_model::events::stream::Event;

/// Converts an event of the stream.
pub(crate) fn show(server: i64, event: &Event) -> sched_wire::Event {
    show_at(Position::new(server, event.key, event.at), event)
}

/// A member of a stored payload with its public name and public states. SQL statements store column
/// names and SQL states.
fn shown(name: &str, value: &serde_json::Value) -> (String, serde_json::Value) {
    let public = match name {
        "dispatch_id" => "run_id",
        "dispatch_status" => "run_status",
        "execution_id" => "attempt_id",
        other => other,
    };
    let word =
        matches!(name, "status" | "dispatch_status").then(|| value.as_str().and_then(state_word)).flatten();
    (public.to_owned(), word.map_or_else(|| value.clone(), serde_json::Value::from))
}

/// Converts an event with the given position.
pub(crate) fn show_at(position: Position, event: &Event) -> sched_wire::Event {
    let data = match &event.payload {
        serde_json::Value::Object(map) => map.iter().map(|(name, value)| shown(name, value)).collect(),
        // A CHECK of the schema excludes every other type.
        _ => serde_json::Map::new(),
    };
    sched_wire::Event {
        id: position.to_string(),
        event_type: event.event_type.clone(),
        at: event.at,
        project_id: event.project_id.map(|id| id.0),
        job_id: event.job_id.map(|id| id.0),
        run_id: event.dispatch_id.map(|id| id.0),
        is_installation: event.tenant_id.is_none(),
        data,
    }
}
