//! The event stream for clients: one reader for all ([`hub`]), positions ([`position`]), the
//! messages to one client ([`listener`]), and bounded reads of old events ([`reads`]). The routes
//! own the transport.

pub(crate) mod hub;
pub(crate) mod listener;
pub(crate) mod position;
pub(crate) mod reads;

pub(crate) use hub::Hub;
pub(crate) use position::Position;

use crate::convert::stored::public_members;
use sched_model::events::stream::Event;

pub(crate) fn show(server: i64, event: &Event) -> sched_wire::Event {
    show_at(Position::new(server, event.key, event.at), event)
}

pub(crate) fn show_at(position: Position, event: &Event) -> sched_wire::Event {
    let data = match &event.payload {
        serde_json::Value::Object(members) => public_members(members.clone()),
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
