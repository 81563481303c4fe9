//! A page of the list of events, newest first. Read only.
//!
//! The events are read in stretches, so that no read is long. A page that took long enough is
//! returned as it is, and its cursor names the progress. Events are listed as soon as they are
//! committed, which may be before the stream can send them; their ids name the position from which
//! to follow.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sched_model::Conn;
use sched_model::events::stream::{self, Event, EventFilter, EventKey, Span};
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::Page;

use crate::database::requests::EventScope;
use crate::error::ApiError;
use crate::events::reads::Stretch;
use crate::events::{Position, show_at};
use crate::http::pagination::Limit;
use crate::identity::Identity;
use crate::state::ApiState;

/// After this time a page is returned with the events found so far.
const ENOUGH: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) filter: EventFilter,
    /// No match is before this key.
    pub(crate) after: EventKey,
    pub(crate) before: EventKey,
    pub(crate) server: i64,
    /// The next transaction, and the open ones, before the first read.
    pub(crate) next_transaction: i64,
    pub(crate) open: Vec<i64>,
}

impl Listing {
    pub(crate) async fn page(
        self,
        state: &ApiState,
        caller: &Identity,
        limit: Limit,
    ) -> Result<Page<sched_wire::Event>, ApiError> {
        let (began, mut stretch, mut rows) = (monotonic(), Stretch::default(), Vec::new());
        let (mut before, mut has_read) = (self.before, false);
        let has_all = loop {
            let wanted = limit.rows().saturating_sub_unsigned(u64::try_from(rows.len()).unwrap_or(u64::MAX));
            if before <= self.after || wanted <= 0 {
                break true;
            }
            if has_read && began.elapsed() >= ENOUGH {
                break false;
            }
            let newest = before.transaction.min(self.next_transaction);
            let first = newest.saturating_sub(stretch.transactions());
            // Events restored from a dump have no number and come first.
            let far = if first > 0 { EventKey::before(first).max(self.after) } else { self.after };
            let (filter, span, instant) = (&self.filter, Span::Backward { after: far, before }, monotonic());
            let work =
                async |conn: &mut Conn| Ok::<_, ApiError>(stream::page(conn, filter, span, wanted).await?);
            let scope = EventScope { caller, with_installation: filter.with_installation };
            match state.read_events(scope, "list_events", work).await {
                Err(ApiError::Busy(error)) => {
                    stretch = stretch.after_too_long().ok_or(ApiError::Busy(error))?;
                }
                found => {
                    let found = found?;
                    stretch = stretch.after(found.len(), instant.elapsed());
                    rows.extend(found);
                    (before, has_read) = (far, true);
                }
            }
        };
        let floor = self.floor(state, caller, &rows).await?;
        let position = |event: &Event| Position::new(self.server, event.key, event.at);
        let mut page = limit.page(
            rows,
            |event| position(event).to_string(),
            |event| show_at(position(&event).above(floor), &event),
        );
        if !has_all && page.next_cursor.is_none() {
            page.next_cursor =
                Some(Position::new(self.server, before, DateTime::<Utc>::UNIX_EPOCH).to_string());
        }
        Ok(page)
    }

    /// The oldest transaction that may have written an event that was not read.
    async fn floor(&self, state: &ApiState, caller: &Identity, rows: &[Event]) -> Result<i64, ApiError> {
        let oldest = |open: &mut dyn Iterator<Item = i64>| open.min().unwrap_or(self.next_transaction);
        let floor = oldest(&mut self.open.iter().copied());
        if rows.first().is_none_or(|newest| newest.key.transaction < floor) {
            return Ok(floor);
        }
        // Transactions of other databases write no events here.
        let work = async |conn: &mut Conn| Ok::<_, ApiError>(stream::running(conn).await?);
        let running = state.read_events(EventScope::tenant(caller), "ask_who_runs", work).await?;
        let is_elsewhere =
            |number: &i64| running.iter().any(|one| one.transaction == *number && one.is_elsewhere);
        Ok(oldest(&mut self.open.iter().copied().filter(|number| !is_elsewhere(number))))
    }
}
