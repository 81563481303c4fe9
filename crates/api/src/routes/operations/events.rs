//! Events, as a list and as a stream of server-sent events.

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, web};
use chrono::{DateTime, Utc};
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::DispatchId;
use sched_model::events::stream::{self, EventFilter, EventKey};
use sched_model::{Conn, connection::database_clock, dispatching::dispatches, identity::tenants};
use sched_wire::{Event, EventStreamQuery, EventType, EventsQuery, Page, StreamMessage};

use super::event_list::Listing;
use crate::convert::moment::moment;
use crate::database::requests::EventScope;
use crate::error::ApiError;
use crate::events::listener::{Listener, Start, StreamRequest};
use crate::events::{Position, show_at};
use crate::http::extract::Query;
use crate::http::pagination::Limit;
use crate::http::stream::server_sent;
use crate::identity::Identity;
use crate::routes::jobs::filter;
use crate::routes::runs::logs::LAST_EVENT_ID;
use crate::routes::{Answer, State};

/// Delay before a browser reconnects.
const RETRY: &str = "retry: 1000\n\n";

/// `GET /events`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<EventsQuery>,
) -> Answer<Page<Event>> {
    let limit = Limit::new(query.limit)?;
    let types = types(query.event_type.as_deref())?;
    let before = match query.cursor.as_deref() {
        Some(cursor) => position(cursor, "cursor")?.key,
        None => EventKey::LAST,
    };
    let (caller, query) = (&identity, &query);
    let selector =
        EventSelector { job: query.job.as_deref(), project: query.project.as_deref(), dispatch: query.run };
    let prepare = async |conn: &mut Conn| {
        let mut filter = selector.resolve(conn, caller, types.clone()).await?;
        let now = database_clock::now(conn).await?;
        filter.since = instant("since", query.since.as_deref(), now)?;
        filter.until = instant("until", query.until.as_deref(), now)?;
        let after = match filter.since {
            Some(since) => stream::position_at(conn, caller.tenant(), since).await?.key,
            None => EventKey::default(),
        };
        let before = match filter.until {
            Some(until) => before.min(stream::position_after(conn, caller.tenant(), until).await?),
            None => before,
        };
        let beginning = stream::Mark::beginning(now);
        let server = stream::origin(conn, beginning).await?.server;
        // Before any read: the following reads see transactions that are closed now.
        let (next_transaction, open) = stream::open_transactions(conn).await?;
        Ok::<_, ApiError>(Listing { filter, after, before, server, next_transaction, open })
    };
    let scope = EventScope { caller, with_installation: sees_installation(caller) };
    let listing = state.read_events(scope, "begin_list_events", prepare).await?;
    listing.page(&state, caller, limit).await.map(web::Json)
}

/// `GET /events/{event}`
pub(crate) async fn get(state: State, identity: Identity, id: web::Path<String>) -> Answer<Event> {
    let no_such_event = || ApiError::NotFound { kind: "event", name: id.as_str().to_owned() };
    let position: Position = id.parse().map_err(|_no_position| no_such_event())?;
    let (tenant, with_installation) = (identity.tenant(), sees_installation(&identity));
    let filter = EventFilter { with_installation, ..EventFilter::of(tenant) };
    let work = async |conn: &mut Conn| {
        let found = stream::page(conn, &filter, EventFilter::only(position.key), 1).await?.pop();
        // Numbers of another database name other events.
        found.filter(|event| event.at == position.at()).ok_or_else(no_such_event)
    };
    let scope = EventScope { caller: &identity, with_installation };
    let found = state.read_events(scope, "get_event", work).await?;
    Ok(web::Json(show_at(position, &found)))
}

/// `GET /events/stream`
pub(crate) async fn stream(
    state: State,
    identity: Identity,
    request: HttpRequest,
    Query(query): Query<EventStreamQuery>,
) -> Result<HttpResponse, ApiError> {
    let patience = state.stream_patience;
    let stream = stream_request(state, identity, request.headers(), &query).await?;
    let listener = Listener::open(stream).await?;
    let pieces = futures_util::stream::unfold((listener, RETRY), |(mut listener, before)| async move {
        let messages = listener.next().await?;
        let text = messages.iter().fold(before.to_owned(), |text, message| text + &sent(message));
        Some((text, (listener, "")))
    });
    Ok(server_sent(pieces, patience))
}

/// A heartbeat only moves the position; browsers do not dispatch it.
fn sent(message: &StreamMessage) -> String {
    if let StreamMessage::KeepAlive { id } = message {
        return format!(": nothing new\nid: {id}\n\n");
    }
    let id = message.id().map(|id| format!("id: {id}\n")).unwrap_or_default();
    // Strings and numbers only: this cannot fail, and JSON has no line breaks here.
    let data = serde_json::to_string(message).unwrap_or_default();
    format!("{id}event: {}\ndata: {data}\n\n", message.name())
}

pub(crate) async fn stream_request(
    state: State,
    identity: Identity,
    headers: &HeaderMap,
    query: &EventStreamQuery,
) -> Result<StreamRequest, ApiError> {
    let types = types(query.event_type.as_deref())?;
    let header = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let after = header.or(query.after.as_deref()).map(|after| position(after, "after")).transpose()?;
    let selector =
        EventSelector { job: query.job.as_deref(), project: query.project.as_deref(), dispatch: query.run };
    let (caller, types) = (&identity, &types);
    let filter = state
        .read(caller, "find_meant", async |conn: &mut Conn| {
            let mut filter = selector.resolve(conn, caller, types.clone()).await?;
            filter.since = instant("since", query.since.as_deref(), database_clock::now(conn).await?)?;
            Ok::<_, ApiError>(filter)
        })
        .await?;
    let start = match (after, filter.since) {
        (Some(position), _) => Start::After(position),
        (None, Some(since)) => Start::At(since),
        (None, None) => Start::Now,
    };
    Ok(StreamRequest { state, identity, headers: headers.clone(), filter, start })
}

pub(crate) fn instant(
    name: &str,
    text: Option<&str>,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, ApiError> {
    let found = text.map(|text| moment(text, now, "UTC")).transpose();
    found.map_err(|message| ApiError::parameter(name, message))
}

#[derive(Debug, Clone, Copy)]
struct EventSelector<'a> {
    job: Option<&'a str>,
    project: Option<&'a str>,
    dispatch: Option<uuid::Uuid>,
}

impl EventSelector<'_> {
    /// Only operators see events of the installation.
    async fn resolve(
        &self,
        conn: &mut Conn,
        identity: &Identity,
        types: Vec<String>,
    ) -> Result<EventFilter, ApiError> {
        let tenant = identity.tenant();
        let job = match self.job {
            Some(job) => Some(filter(conn, tenant, job).await?),
            None => None,
        };
        let project = match self.project {
            Some(name) => {
                let found = tenants::project_by_name(conn, tenant, name).await?;
                Some(found.ok_or_else(|| ApiError::NotFound { kind: "project", name: name.to_owned() })?)
            }
            None => None,
        };
        let with_installation = sees_installation(identity);
        let dispatch = self.dispatch.map(DispatchId);
        // Events of a run have no index of their own; they are found through its job.
        let job = match (job, dispatch) {
            (None, Some(id)) => dispatches::by_id(conn, tenant, id).await?.map(|found| found.row.job_id),
            (job, _) => job,
        };
        Ok(EventFilter { with_installation, project, job, dispatch, types, ..EventFilter::of(tenant) })
    }
}

pub(crate) fn sees_installation(identity: &Identity) -> bool {
    identity.caller().permissions.has(Permission::SystemOperate)
}

fn types(text: Option<&str>) -> Result<Vec<String>, ApiError> {
    let words = text.into_iter().flat_map(|text| text.split(',')).map(str::trim);
    words
        .map(|word| match word.parse::<EventType>() {
            Ok(known) => Ok(known.as_str().to_owned()),
            Err(error) => Err(ApiError::parameter("type", error.to_string())),
        })
        .collect()
}

fn position(text: &str, parameter: &str) -> Result<Position, ApiError> {
    text.parse().map_err(|error| ApiError::parameter(parameter, format!("{error}")))
}
