//! One client of the event stream.
//!
//! A listener sends the events after its position: in pages from the table while it is behind, and
//! from the shared reader ([`super::hub`]) afterwards. A slow client falls behind and reads from
//! the table again; it delays no other and misses no event. The listener checks periodically that
//! the client may still read, and whether the daemon stops. It stores nothing: each message
//! contains the position.

use std::time::{Duration, Instant};

use actix_web::http::header::HeaderMap;
use actix_web::web;
use chrono::{DateTime, Utc};
use sched_model::Conn;
use sched_model::domain::identity::Permission;
use sched_model::events::stream::{self, Event, EventFilter, EventKey, Mark, Span};
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{EndReason, ResetReason, StreamMessage};
use tokio::sync::broadcast::error::RecvError;

use super::hub::{Frontier, Listening};
use super::reads::Stretch;
use super::{Position, show};
use crate::database::requests::EventScope;
use crate::error::ApiError;
use crate::http::stream_limits::StreamSlot;
use crate::identity::{self, Identity};
use crate::state::ApiState;

const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Keeps the connection open through proxies, and gives the client a position to continue from.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The same while the stream reads old events: progress survives a broken connection.
const TELL_PROGRESS: Duration = Duration::from_secs(1);
/// Longest wait for the shared reader at the beginning.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
const PAGE: i64 = 200;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    Now,
    After(Position),
    At(DateTime<Utc>),
}

#[derive(Debug)]
pub(crate) struct StreamRequest {
    pub(crate) state: web::Data<ApiState>,
    pub(crate) identity: Identity,
    pub(crate) headers: HeaderMap,
    pub(crate) filter: EventFilter,
    pub(crate) start: Start,
}

#[derive(Debug)]
pub(crate) struct Listener {
    state: web::Data<ApiState>,
    identity: Identity,
    headers: HeaderMap,
    filter: EventFilter,
    server: i64,
    /// Number of database replacements when the stream began.
    epoch: u64,
    /// All events up to this key were sent.
    key: EventKey,
    /// The last event up to `key`, of any tenant.
    mark: Mark,
    is_behind: bool,
    stretch: Stretch,
    opening: Vec<StreamMessage>,
    is_over: bool,
    checked: Instant,
    last_sent: Instant,
    listening: Listening,
    _place: StreamSlot,
}

impl Listener {
    pub(crate) async fn open(request: StreamRequest) -> Result<Self, ApiError> {
        let StreamRequest { state, identity, headers, filter, start } = request;
        let place = state.listeners.take(&identity)?;
        let mut listening = state.hub.listen(filter.dispatch.is_some());
        let opened = listening.frontier.wait_for(Option::is_some);
        let opened = tokio::time::timeout(OPEN_WITHIN, opened).await.map_err(|_late| ApiError::Starting)?;
        let now = opened.ok().and_then(|frontier| *frontier).ok_or(ApiError::Starting)?;
        let (mark, fault) = match start {
            Start::Now => (now.mark, None),
            Start::After(position) => resume(&state, position, &now).await?,
            Start::At(since) => (written_at(&state, &identity, since).await?, None),
        };
        let id = Position::new(now.server, mark.key, mark.at).to_string();
        let mut opening = vec![StreamMessage::Open { id: id.clone() }];
        if let Some(reason) = fault {
            opening.push(StreamMessage::Reset { reason, id });
        }
        let instant = monotonic();
        Ok(Self {
            state,
            identity,
            headers,
            filter,
            server: now.server,
            epoch: now.epoch,
            key: mark.key,
            mark,
            is_behind: mark.key < now.mark.key,
            stretch: Stretch::default(),
            opening,
            is_over: false,
            checked: instant,
            last_sent: instant,
            listening,
            _place: place,
        })
    }

    /// `None` when the stream is over. Cancel-safe: a dropped call has sent nothing.
    pub(crate) async fn next(&mut self) -> Option<Vec<StreamMessage>> {
        if !self.opening.is_empty() {
            return Some(std::mem::take(&mut self.opening));
        }
        while !self.is_over {
            if let Some(reason) = self.reason_to_end().await {
                return Some(self.end(reason));
            }
            let found = if self.is_behind { self.read_table().await } else { Ok(self.live().await) };
            let mut messages = match found {
                Ok(messages) => messages,
                Err(error) => {
                    tracing::debug!(error = %error, "event stream ended");
                    return Some(self.end(EndReason::Unavailable));
                }
            };
            let patience = if self.is_behind { TELL_PROGRESS } else { KEEP_ALIVE };
            if messages.is_empty() && self.last_sent.elapsed() >= patience {
                messages = self.sign_of_life().await;
            }
            if !messages.is_empty() {
                self.last_sent = monotonic();
                return Some(messages);
            }
        }
        None
    }

    fn end(&mut self, reason: EndReason) -> Vec<StreamMessage> {
        self.is_over = true;
        vec![StreamMessage::End { reason }]
    }

    async fn sign_of_life(&mut self) -> Vec<StreamMessage> {
        if self.is_behind {
            let key = self.key;
            let work = async |conn: &mut Conn| {
                stream::newest(conn, EventKey { id: key.id.saturating_add(1), ..key }).await
            };
            match self.state.sessions.follow("find_last_event", work).await {
                Ok(found) => self.mark = found.unwrap_or(self.mark),
                // The client gets the position from before.
                Err(error) => {
                    tracing::debug!(error = %error, "cannot read the progress of an event stream; sending the last position")
                }
            }
        }
        let id = Position::new(self.server, self.mark.key, self.mark.at).to_string();
        let held = self.listening.frontier.borrow().and_then(|frontier| frontier.held_for());
        let held = held.map(|held| StreamMessage::HeldBack { seconds: held.as_secs() });
        held.into_iter().chain([StreamMessage::KeepAlive { id }]).collect()
    }

    async fn reason_to_end(&mut self) -> Option<EndReason> {
        if self.state.is_stopping() {
            return Some(EndReason::Stopping);
        }
        // The client reconnects and learns whether its position is still valid.
        if self.listening.frontier.borrow().is_some_and(|frontier| frontier.epoch != self.epoch) {
            return Some(EndReason::Unavailable);
        }
        if self.checked.elapsed() < CHECK_EVERY {
            return None;
        }
        let (state, headers, tenant) = (&self.state, &self.headers, self.identity.tenant());
        let may = async |permission| identity::may_still(state, headers, tenant, permission).await;
        if !may(Permission::RunsRead).await
            || (self.filter.with_installation && !may(Permission::SystemOperate).await)
        {
            return Some(EndReason::Revoked);
        }
        self.checked = monotonic();
        None
    }

    async fn read_table(&mut self) -> Result<Vec<StreamMessage>, ApiError> {
        let frontier = *self.listening.frontier.borrow();
        let Some(last) = frontier.map(|frontier| frontier.mark).filter(|last| last.key > self.key) else {
            self.is_behind = false;
            return Ok(Vec::new());
        };
        let far = EventKey::before(self.key.transaction.saturating_add(self.stretch.transactions()));
        let upto = last.key.min(far.max(self.key));
        let span =
            Span::Forward { after: self.key, before: EventKey { id: upto.id.saturating_add(1), ..upto } };
        let (filter, caller, began) = (&self.filter, &self.identity, monotonic());
        let work = async |conn: &mut Conn| Ok::<_, ApiError>(stream::page(conn, filter, span, PAGE).await?);
        let scope = EventScope { caller, with_installation: filter.with_installation };
        let found = match self.state.read_events(scope, "read_events", work).await {
            Err(ApiError::Busy(error)) => {
                self.stretch = self.stretch.after_too_long().ok_or(ApiError::Busy(error))?;
                return Ok(Vec::new());
            }
            found => found?,
        };
        let is_full = i64::try_from(found.len()).is_ok_and(|count| count >= PAGE);
        self.stretch = self.stretch.after(found.len(), began.elapsed());
        if let Some(last) = found.last() {
            (self.key, self.mark) = (last.key, Mark { key: last.key, at: last.at });
        }
        if !is_full {
            self.key = upto;
            if upto == last.key {
                (self.mark, self.is_behind) = (last, false);
            }
        }
        Ok(self.messages(&found))
    }

    async fn live(&mut self) -> Vec<StreamMessage> {
        let received = tokio::time::timeout(CHECK_EVERY, self.listening.batches.recv()).await;
        let batch = match received {
            Err(_nothing_new) => {
                // After a restart of the reader, no batch covers the gap.
                let frontier = *self.listening.frontier.borrow();
                self.is_behind = frontier.is_some_and(|frontier| frontier.mark.key > self.key);
                return Vec::new();
            }
            Ok(Ok(batch)) => batch,
            Ok(Err(RecvError::Lagged(missed))) => {
                metrics::counter!("sched_api_events_lagged_total").increment(missed);
                self.is_behind = true;
                return Vec::new();
            }
            Ok(Err(RecvError::Closed)) => {
                self.is_over = true;
                return Vec::new();
            }
        };
        if batch.epoch != self.epoch || batch.upto.key <= self.key {
            return Vec::new();
        }
        if batch.after > self.key {
            // The batches of the gap were sent before this listener subscribed.
            self.is_behind = true;
            return Vec::new();
        }
        let new = batch.events.iter().filter(|event| event.key > self.key && self.filter.matches(event));
        let messages = new.map(|event| StreamMessage::Event(show(self.server, event))).collect();
        (self.key, self.mark) = (batch.upto.key, batch.upto);
        messages
    }

    fn messages(&self, events: &[Event]) -> Vec<StreamMessage> {
        events.iter().map(|event| StreamMessage::Event(show(self.server, event))).collect()
    }
}

async fn resume(
    state: &ApiState,
    position: Position,
    now: &Frontier,
) -> Result<(Mark, Option<ResetReason>), ApiError> {
    let mark = position.mark();
    let work = async |conn: &mut Conn| {
        let origin = stream::origin(conn, mark).await?;
        let before = match position.floor() {
            Some(floor) => Some(stream::newest(conn, floor).await?),
            None => None,
        };
        Ok((origin, before))
    };
    let (origin, before) = state.sessions.follow("begin_events", work).await?;
    if origin.server != now.server {
        return Err(ApiError::Starting);
    }
    let fault = position.fault(&origin);
    let mark = match (fault, before) {
        (Some(ResetReason::OtherDatabase), _) => now.mark,
        (Some(ResetReason::Expired), _) | (None, None) => mark,
        // Events before the position may not have been visible when it was shown.
        (None, Some(before)) => before.unwrap_or_else(|| Mark::beginning(mark.at)),
    };
    Ok((mark, fault))
}

async fn written_at(state: &ApiState, identity: &Identity, since: DateTime<Utc>) -> Result<Mark, ApiError> {
    let work =
        async |conn: &mut Conn| Ok::<_, ApiError>(stream::position_at(conn, identity.tenant(), since).await?);
    state.read_events(EventScope::tenant(identity), "find_instant", work).await
}
