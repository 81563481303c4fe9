//! The stream of a run's output: of all attempts so far, and of the running one as it is written.
//!
//! It uses server-sent events. The id of each event is the reader's position, and no state is kept
//! here: a disconnected client continues with the last id at any API process. The stream polls the
//! database ([`follow`]) and holds no connection in between. It ends when the daemon stops, the
//! database fails, or the client's key is no longer valid.

mod follow;
mod position;

use std::time::{Duration, Instant};

use actix_web::http::header::{HeaderMap, HeaderName};
use actix_web::web;
use actix_web::{HttpRequest, HttpResponse};
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::DispatchId;
use sched_model::{Conn, DbError};
use sched_runtime::exit;
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{LogEvent, LogsQuery};

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::extract::{Query, id};
use crate::http::stream::server_sent;
use crate::http::stream_limits::StreamSlot;
use crate::identity::{self, Identity};
use crate::routes::State;
use follow::Follower;
use position::Position;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Comments keep the connection open through proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// `GET /runs/{id}/logs`
pub(crate) async fn of_dispatch(
    call: Call,
    request: HttpRequest,
    text: web::Path<String>,
    Query(query): Query<LogsQuery>,
) -> Result<HttpResponse, ApiError> {
    let Call { state, identity, .. } = call;
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let header = request.headers().get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let position = match header.or(query.after.as_deref()) {
        Some(text) => text.parse().map_err(|error| ApiError::parameter("after", format!("{error}")))?,
        None => Position::default(),
    };
    // With and without `follow`: each reader holds a page, and a slow client holds it for long.
    let place = state.followers.take(&identity)?;
    let mut follower = Follower::new(tenant, id, position);
    // The first poll is before the answer, so that its errors are normal answers.
    let first = poll(&state, &identity, id, &mut follower).await?;
    let patience = state.stream_patience;
    let stream = Stream {
        state,
        headers: request.headers().clone(),
        identity,
        dispatch: id,
        follower,
        is_followed: query.follow,
        waiting: first,
        is_over: false,
        last_sent: monotonic(),
        _place: place,
    };
    Ok(server_sent(futures_util::stream::unfold(stream, Stream::next), patience))
}

/// One poll, in its own short transaction. A failed poll does not move the follower.
async fn poll(
    state: &State,
    identity: &Identity,
    id: DispatchId,
    follower: &mut Follower,
) -> Result<LogEvents, ApiError> {
    let before = &*follower;
    let polled = state.read(identity, "follow_output", async |conn: &mut Conn| {
        let mut after = before.clone();
        let events = after.poll(conn).await.map_err(|error| match error {
            DbError::NotFound => ApiError::NotFound { kind: "run", name: id.to_string() },
            error => error.into(),
        })?;
        Ok((after, events))
    });
    let (after, events) = polled.await?;
    *follower = after;
    Ok(events)
}

type LogEvents = Vec<(LogEvent, Position)>;

struct Stream {
    state: State,
    /// To check periodically that the key is still valid.
    headers: HeaderMap,
    identity: Identity,
    dispatch: DispatchId,
    follower: Follower,
    is_followed: bool,
    waiting: LogEvents,
    is_over: bool,
    last_sent: Instant,
    _place: StreamSlot,
}

impl Stream {
    async fn next(mut self) -> Option<(String, Self)> {
        while !self.is_over {
            let mut text: String = std::mem::take(&mut self.waiting).iter().map(event).collect();
            if !self.follower.has_more() && (!self.is_followed || self.follower.status().is_final()) {
                text.push_str(&event(&self.follower.end()));
                self.is_over = true;
            }
            if text.is_empty() && self.last_sent.elapsed() >= KEEP_ALIVE {
                text.push_str(": nothing new\n\n");
            }
            let is_behind = self.follower.has_more();
            if !self.is_over {
                // Also between two pages: back-pressure of a slow client delays this call.
                if text.is_empty() || is_behind {
                    self.look_again(is_behind).await;
                }
            }
            if !text.is_empty() {
                self.last_sent = monotonic();
                return Some((text, self));
            }
        }
        None
    }

    async fn look_again(&mut self, is_behind: bool) {
        if !is_behind {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if self.state.is_stopping() {
            self.is_over = true;
            return;
        }
        if !identity::may_still(&self.state, &self.headers, self.identity.tenant(), Permission::RunsRead)
            .await
        {
            // The client reconnects and gets the reason then.
            self.is_over = true;
            return;
        }
        match poll(&self.state, &self.identity, self.dispatch, &mut self.follower).await {
            Ok(events) => self.waiting = events,
            Err(error) => {
                // The client can continue from its position; an open stream cannot carry the error.
                tracing::debug!(error = exit::describe(&error), "output stream ended early");
                self.is_over = true;
            }
        }
    }
}

fn event((event, position): &(LogEvent, Position)) -> String {
    // Strings and numbers only: this cannot fail, and JSON has no line breaks here.
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("event: {}\nid: {position}\ndata: {data}\n\n", event.name())
}
