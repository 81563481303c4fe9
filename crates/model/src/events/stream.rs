//! Reads the event stream in an order in which no event is ever missed.
//!
//! Ids commit out of order: a transaction with a lower id may commit after higher ids were read. So
//! the order is that of the writing transactions, then of the ids within each ([`EventKey`]), and a
//! reader stops at the oldest running transaction. Events before that are settled: they never
//! change, so a position among them is valid as long as the events exist. Each reader stores its
//! own position.
//!
//! Starts and ends of attempts are stored in batches (migration `create_events`). Event n of a batch
//! has the id of the batch plus n, so a position may lie within a batch.
//!
//! # Design notes
//! - Two kinds of long transactions do not block the stream: those of other databases of the
//!   server, and those that have run for longer than [`WRITES_WITHIN`] without writing events. The
//!   default of `events.transaction_id` then rejects events from them. A transaction that wrote
//!   events and continues blocks the stream ([`Running`] identifies it). Read-only transactions,
//!   such as a backup, have no number and do not block.
//! - `created_at` follows the order within [`WRITES_WITHIN`]: a transaction writes its events
//!   within that time of its beginning, and gets its number after it. So a binary search finds a
//!   time without an index by time.
//! - Transaction numbers mean nothing on another server; [`origin`] identifies servers. After a
//!   restore from a dump, [`settle_foreign`] moves the restored events before all new ones. Until
//!   then [`read`] returns no events.
//! - The same server may reuse numbers: after a crash or a failover, those whose log had not
//!   reached the disk or the replica; after a restore to an earlier time, all later ones. So a
//!   reader stores the last event that it read ([`Mark`]), which was committed, and checks that it
//!   exists when it continues.

mod page;
mod transactions;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::events::section::{self, EventRow, Position};
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

pub use self::page::{EventFilter, Span, page};
pub use self::transactions::{Origin, Running, open_transactions, origin, running, settle_foreign};

/// Time after its beginning in which a transaction may write events; as in the default of
/// `events.transaction_id`.
pub const WRITES_WITHIN: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventKey {
    /// Number of the writing transaction.
    pub transaction: i64,
    /// Id of the event; 0 is before all events of the transaction.
    pub id: i64,
}

impl EventKey {
    pub const LAST: Self = Self { transaction: i64::MAX, id: i64::MAX };

    #[must_use]
    pub const fn before(transaction: i64) -> Self {
        Self { transaction, id: 0 }
    }
}

/// Position of a reader: the last event that it read, or the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub key: EventKey,
    /// When the event was written; for the beginning, when the reader started.
    pub at: DateTime<Utc>,
}

impl Mark {
    #[must_use]
    pub fn beginning(at: DateTime<Utc>) -> Self {
        Self { key: EventKey::default(), at }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub key: EventKey,
    /// By the database's clock.
    pub at: DateTime<Utc>,
    /// `None` for events of the installation.
    pub tenant_id: Option<TenantId>,
    pub project_id: Option<ProjectId>,
    pub job_id: Option<JobId>,
    pub dispatch_id: Option<DispatchId>,
    pub event_type: String,
    pub payload: serde_json::Value,
}

#[derive(Debug, Clone)]
pub struct StreamState {
    /// All events before this are settled. `events` contains all of those after the given mark, if
    /// it has fewer than the limit and no event is foreign.
    pub settled: EventKey,
    /// Number of the next transaction: the end of the stream if no transaction were running.
    pub next_transaction: i64,
    /// By the database's clock.
    pub at: DateTime<Utc>,
    /// See [`Origin`].
    pub server: i64,
    /// Whether there are unsettled events from a dump.
    pub has_foreign: bool,
    /// Whether the event of the mark exists.
    pub is_there: bool,
    pub events: Vec<Event>,
}

/// Settled events of all tenants after `after`, at most `limit`. Transactions in `ignored` do not
/// block the stream.
pub async fn read(conn: &mut Conn, after: Mark, ignored: &[i64], limit: i64) -> DbResult<StreamState> {
    let Mark { key: EventKey { transaction, id }, at } = after;
    let rows = section::look(conn, Position { transaction, id, at }, ignored, limit).await?;
    let mut seen = None;
    let mut events = Vec::new();
    for (ends_at, next_transaction, at, server, has_foreign, is_there, row) in rows {
        let settled = EventKey::before(ends_at);
        seen = Some(StreamState {
            settled,
            next_transaction,
            at,
            server,
            has_foreign,
            is_there,
            events: Vec::new(),
        });
        events.extend(whole(row));
    }
    Ok(StreamState { events, ..seen.ok_or(DbError::NotFound)? })
}

/// State of the stream: the end of the settled events, and everything that [`read`] returns besides
/// events.
pub async fn state(conn: &mut Conn, ignored: &[i64]) -> DbResult<StreamState> {
    // After all events, and no event's position.
    let last = Mark { key: EventKey { id: 0, ..EventKey::LAST }, at: DateTime::UNIX_EPOCH };
    read(conn, last, ignored, 0).await
}

statement! {
    Newest = "stream/events_newest.sql", (transaction: i64 as BigInt, id: i64 as BigInt) -> (BigInt, BigInt, Timestamptz)
}

/// The last event before a position.
pub async fn newest(conn: &mut Conn, before: EventKey) -> DbResult<Option<Mark>> {
    let EventKey { transaction, id } = before;
    let found: Option<(i64, i64, DateTime<Utc>)> =
        Newest { transaction, id }.get_result(conn).await.optional()?;
    Ok(found.map(|(transaction, id, at)| Mark { key: EventKey { transaction, id }, at }))
}

fn whole(row: EventRow) -> Option<Event> {
    Some(Event {
        key: EventKey { transaction: row.transaction?, id: row.id? },
        at: row.at?,
        tenant_id: row.tenant_id,
        project_id: row.project_id,
        job_id: row.job_id,
        dispatch_id: row.dispatch_id,
        event_type: row.event_type?,
        payload: row.payload?,
    })
}

statement! {
    PositionAt = "stream/events_position.sql", (tenant: TenantId as SqlUuid, at: DateTime<Utc> as Timestamptz) -> Nullable<BigInt>
}

/// The last event of a tenant older than `at`, such that all its earlier events are older too. Some
/// later events may be older.
pub async fn position_at(conn: &mut Conn, tenant: TenantId, at: DateTime<Utc>) -> DbResult<Mark> {
    let beginning = Mark::beginning(at);
    let found = PositionAt { tenant, at: at - writes_within() }.get_result::<Option<i64>>(conn).await?;
    let before = EventKey::before(found.unwrap_or(0));
    if before == EventKey::default() {
        return Ok(beginning);
    }
    let span = Span::Backward { after: EventKey::default(), before };
    let last = page(conn, &EventFilter::of(tenant), span, 1).await?.pop();
    Ok(last.map_or(beginning, |event| Mark { key: event.key, at: event.at }))
}

/// A position after all events of any tenant older than `at`. Some earlier events may be younger.
pub async fn position_after(conn: &mut Conn, tenant: TenantId, at: DateTime<Utc>) -> DbResult<EventKey> {
    let found = PositionAt { tenant, at: at + writes_within() }.get_result::<Option<i64>>(conn).await?;
    // The installation may have a younger event; and the events of a dump have no order.
    let Some(found) = found.filter(|found| *found > 0) else { return Ok(EventKey::LAST) };
    let span = Span::Forward { after: EventKey::before(found), before: EventKey::LAST };
    let next = page(conn, &EventFilter::of(tenant), span, 1).await?.pop();
    Ok(next.map_or(EventKey::LAST, |event| EventKey::before(event.key.transaction)))
}

fn writes_within() -> TimeDelta {
    TimeDelta::from_std(WRITES_WITHIN).unwrap_or_default()
}
