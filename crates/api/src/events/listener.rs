//! One client that follows the stream of events.
//!
//! It stands at a position and is told what follows: from the table while it is behind, in pages, and from the common reader
//! ([`super::hub`]) once it is not. It falls behind when it takes its time, and then reads from the table again; nobody waits for it and
//! it misses nothing. Now and then it is asked whether the client may still read, and whether the daemon stops. Nothing is remembered here:
//! the client has the position with each message.

use std::time::{Duration, Instant};

use actix_web::http::header::HeaderMap;
use actix_web::web;
use chrono::{DateTime, Utc};
use sched_model::db::Conn;
use sched_model::db::event_stream::{self, Event, EventFilter, EventKey, Span};
use sched_model::domain::identity::Permission;
use sched_runtime::clock::monotonic;
use sched_wire::{EndReason, ResetReason, StreamMessage};
use tokio::sync::broadcast::error::RecvError;

use super::hub::Listening;
use super::{Position, show};
use crate::error::ApiError;
use crate::identity::{self, Identity};
use crate::places::Place;
use crate::state::ApiState;

/// How often it is asked whether the stream may go on.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// A sign of life for whatever stands between us and the client, and the position that a client goes on from.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Longest wait for the common reader at the beginning.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// Most events of a page.
const PAGE: i64 = 200;
/// How many transactions a page goes over at first; more when it finds nothing there. Bounds what one look reads, however seldom
/// is what it looks for.
const SPAN: i64 = 50_000;

/// Where a client begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// With what happens from now on.
    Now,
    /// After this position.
    After(Position),
    /// With what happened at an instant.
    At(DateTime<Utc>),
}

/// Who asks, for what.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) state: web::Data<ApiState>,
    pub(crate) identity: Identity,
    /// What the request was, to find out now and then whether its key is still good.
    pub(crate) headers: HeaderMap,
    pub(crate) filter: EventFilter,
    pub(crate) start: Start,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Listener {
    state: web::Data<ApiState>,
    identity: Identity,
    headers: HeaderMap,
    filter: EventFilter,
    server: i64,
    /// Everything up to here has been told.
    key: EventKey,
    /// Nothing that follows was written much before this.
    at: DateTime<Utc>,
    is_behind: bool,
    span: i64,
    opening: Vec<StreamMessage>,
    is_over: bool,
    checked: Instant,
    told: Instant,
    listening: Listening,
    _place: Place,
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// There is no place, or the database cannot be asked.
    pub(crate) async fn open(asked: Asked) -> Result<Self, ApiError> {
        let Asked { state, identity, headers, filter, start } = asked;
        let place = state.listeners.take(&identity)?;
        let mut listening = state.hub.listen();
        let opened = listening.frontier.wait_for(Option::is_some);
        let opened = tokio::time::timeout(OPEN_WITHIN, opened).await.map_err(|_late| ApiError::Starting)?;
        let now = opened.ok().and_then(|frontier| *frontier).ok_or(ApiError::Starting)?;
        let (origin, found) = state
            .read(&identity, "begin_events", async |conn: &mut Conn| {
                let origin = event_stream::origin(conn).await?;
                let found = match start {
                    Start::At(since) => {
                        Some(event_stream::position_at(conn, identity.tenant(), since).await?)
                    }
                    Start::Now | Start::After(_) => None,
                };
                Ok::<_, ApiError>((origin, found))
            })
            .await?;
        let (key, at, fault) = match (start, found) {
            (Start::After(position), _) => match position.fault(&origin) {
                Some(ResetReason::OtherDatabase) => (now.key, now.at, Some(ResetReason::OtherDatabase)),
                fault => (position.key, position.at(), fault),
            },
            (Start::At(since), Some(key)) => (key, since, None),
            (Start::At(_) | Start::Now, _) => (now.key, now.at, None),
        };
        let id = Position::new(origin.server, key, at).to_string();
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
            server: origin.server,
            key,
            at,
            is_behind: key < now.key,
            span: SPAN,
            opening,
            is_over: false,
            checked: instant,
            told: instant,
            listening,
            _place: place,
        })
    }

    /// What is to be told next; `None` when the stream is over. Dropped before it is done, it has told nothing.
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
                    tracing::debug!(error = %error, "A stream of events was broken off.");
                    return Some(self.end(EndReason::Unavailable));
                }
            };
            let is_quiet = messages.is_empty() && self.told.elapsed() >= KEEP_ALIVE;
            if is_quiet {
                messages = self.sign_of_life();
            }
            if !messages.is_empty() {
                self.told = monotonic();
                return Some(messages);
            }
        }
        None
    }

    fn end(&mut self, reason: EndReason) -> Vec<StreamMessage> {
        self.is_over = true;
        vec![StreamMessage::End { reason }]
    }

    fn sign_of_life(&self) -> Vec<StreamMessage> {
        let id = Position::new(self.server, self.key, self.at).to_string();
        let held = self.listening.frontier.borrow().and_then(|frontier| frontier.held_for());
        let held = held.map(|held| StreamMessage::HeldBack { seconds: held.as_secs() });
        held.into_iter().chain([StreamMessage::KeepAlive { id }]).collect()
    }

    async fn reason_to_end(&mut self) -> Option<EndReason> {
        if self.state.is_stopping() {
            return Some(EndReason::Stopping);
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

    /// A page of what lies between the position and what the common reader has handed on.
    async fn read_table(&mut self) -> Result<Vec<StreamMessage>, ApiError> {
        let frontier = *self.listening.frontier.borrow();
        let Some(frontier) = frontier.filter(|frontier| frontier.key > self.key) else {
            self.is_behind = false;
            return Ok(Vec::new());
        };
        let far = EventKey::before(self.key.transaction.saturating_add(self.span));
        let upto = frontier.key.min(far.max(self.key));
        let span =
            Span::Forward { after: self.key, before: EventKey { id: upto.id.saturating_add(1), ..upto } };
        let (filter, who) = (&self.filter, &self.identity);
        let work =
            async |conn: &mut Conn| Ok::<_, ApiError>(event_stream::page(conn, filter, span, PAGE).await?);
        let found = if filter.with_installation {
            self.state.read_installation(who, "read_events", work).await?
        } else {
            self.state.read(who, "read_events", work).await?
        };
        let is_full = i64::try_from(found.len()).is_ok_and(|count| count >= PAGE);
        self.span = if found.is_empty() { self.span.saturating_mul(2) } else { SPAN };
        if let Some(last) = found.last() {
            (self.key, self.at) = (last.key, last.at);
        }
        if !is_full {
            self.key = upto;
            if upto == frontier.key {
                (self.at, self.is_behind) = (frontier.at, false);
            }
        }
        Ok(self.messages(&found))
    }

    /// What the common reader hands on next.
    async fn live(&mut self) -> Vec<StreamMessage> {
        let received = tokio::time::timeout(CHECK_EVERY, self.listening.batches.recv()).await;
        let batch = match received {
            Err(_nothing_new) => return Vec::new(),
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
        if batch.upto <= self.key {
            return Vec::new();
        }
        if batch.after > self.key {
            // Something lies between, which was handed on before we listened.
            self.is_behind = true;
            return Vec::new();
        }
        let new = batch.events.iter().filter(|event| event.key > self.key && self.filter.takes(event));
        let messages = new.map(|event| StreamMessage::Event(show(self.server, event))).collect();
        (self.key, self.at) = (batch.upto, batch.at);
        messages
    }

    fn messages(&self, events: &[Event]) -> Vec<StreamMessage> {
        events.iter().map(|event| StreamMessage::Event(show(self.server, event))).collect()
    }
}
