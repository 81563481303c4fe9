//! Reads the event stream in an order in which no event is ever missed.
//!
//! Ids commit out of order. So the order is that of the writing transactions, then of the ids
//! within each ([`EventKey`]), and a reader stops at the oldest running transaction. Events before
//! that are settled: they never change, so a position among them is valid as long as the events
//! exist. Each reader stores its own position.
//!
//! # Design notes
//! - Two kinds of long transactions do not block the stream: those of other databases of the
//!   server, and those that have run for longer than [`WRITES_WITHIN`] without writing events. The
//!   column's default then rejects events from them (migration 30). A transaction that wrote events
//!   and continues blocks the stream ([`Running`] identifies it). Read-only transactions, such as a
//!   backup, have no number and do not block.
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

mod transactions;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::events::append::{EXECUTION_COMPLETED, EXECUTION_STARTED};
use crate::schema::events;
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

pub use self::transactions::{Origin, Running, open_transactions, origin, running, settle_foreign};

/// Time after its beginning in which a transaction may write events; as in the default of
/// `events.transaction_id`.
pub const WRITES_WITHIN: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventKey {
    /// Number of the writing transaction.
    pub transaction: i64,
    /// 0 is before all events of the transaction.
    pub id: i64,
}

impl EventKey {
    pub const LAST: Self = Self { transaction: i64::MAX, id: i64::MAX };

    #[must_use]
    pub const fn before(transaction: i64) -> Self {
        Self { transaction, id: 0 }
    }
}

/// The last event that a reader read, or the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub key: EventKey,
    /// For the beginning, when the reader started.
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
    /// All earlier events are settled. `events` contains all of those after the mark, if fewer than
    /// the limit and none foreign.
    pub settled: EventKey,
    /// The end of the stream if no transaction were running.
    pub next_transaction: i64,
    /// By the database's clock.
    pub at: DateTime<Utc>,
    /// See [`Origin`].
    pub server: i64,
    /// Unsettled events from a dump exist.
    pub has_foreign: bool,
    pub is_there: bool,
    pub events: Vec<Event>,
}

/// All required columns, or none.
#[derive(Debug, Queryable)]
struct Row {
    transaction: Option<i64>,
    id: Option<i64>,
    at: Option<DateTime<Utc>>,
    tenant_id: Option<TenantId>,
    project_id: Option<ProjectId>,
    job_id: Option<JobId>,
    dispatch_id: Option<DispatchId>,
    event_type: Option<String>,
    payload: Option<serde_json::Value>,
}

type LookRow = (i64, i64, DateTime<Utc>, i64, bool, bool, Row);

#[rustfmt::skip]
type RowTypes = (
    Nullable<BigInt>, Nullable<BigInt>, Nullable<Timestamptz>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>,
    Nullable<Text>, Nullable<Jsonb>,
);

statement! {
    LookAt<'a> = "stream/events_look.sql", (
        transaction: i64 as BigInt,
        id: i64 as BigInt,
        at: DateTime<Utc> as Timestamptz,
        ignored: &'a [i64] as Array<BigInt>,
        limit: i64 as BigInt,
    ) -> (BigInt, BigInt, Timestamptz, BigInt, Bool, Bool, RowTypes)
}

/// Transactions in `ignored` do not block the stream.
pub async fn read(conn: &mut Conn, after: Mark, ignored: &[i64], limit: i64) -> DbResult<StreamState> {
    let Mark { key: EventKey { transaction, id }, at } = after;
    let rows: Vec<LookRow> = LookAt { transaction, id, at, ignored, limit }.load(conn).await?;
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

/// The last visible event before a position.
pub async fn newest(conn: &mut Conn, before: EventKey) -> DbResult<Option<Mark>> {
    let query = events::table
        .select((sql::<BigInt>("transaction_id::text::bigint"), events::id, events::created_at))
        .filter(key("(transaction_id, events.id) < (", before))
        .order(sql::<Bool>("transaction_id DESC, events.id DESC"))
        .limit(1);
    let found: Option<(i64, i64, DateTime<Utc>)> = query.get_result(conn).await.optional()?;
    Ok(found.map(|(transaction, id, at)| Mark { key: EventKey { transaction, id }, at }))
}

fn whole(row: Row) -> Option<Event> {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    pub tenant: TenantId,
    pub with_installation: bool,
    pub project: Option<ProjectId>,
    pub job: Option<JobId>,
    pub dispatch: Option<DispatchId>,
    /// Empty for all.
    pub types: Vec<String>,
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
}

impl EventFilter {
    #[must_use]
    pub const fn of(tenant: TenantId) -> Self {
        Self {
            tenant,
            with_installation: false,
            project: None,
            job: None,
            dispatch: None,
            types: Vec::new(),
            since: None,
            until: None,
        }
    }

    #[must_use]
    pub const fn only(key: EventKey) -> Span {
        let EventKey { transaction, id } = key;
        Span::Forward {
            after: EventKey { transaction, id: id.saturating_sub(1) },
            before: EventKey { transaction, id: id.saturating_add(1) },
        }
    }

    /// The same condition as in [`page`].
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let is_theirs = match event.tenant_id {
            Some(tenant) => tenant == self.tenant,
            None => self.with_installation,
        };
        is_theirs
            && self.project.is_none_or(|project| event.project_id == Some(project))
            && self.job.is_none_or(|job| event.job_id == Some(job))
            && self.dispatch.is_none_or(|dispatch| event.dispatch_id == Some(dispatch))
            && (self.types.is_empty() || self.types.contains(&event.event_type))
            && self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at < until)
    }

    fn is_rare(&self) -> bool {
        let is_common = |name: &String| [EXECUTION_STARTED, EXECUTION_COMPLETED].contains(&name.as_str());
        !self.types.is_empty() && !self.types.iter().any(is_common)
    }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Forward {
        after: EventKey,
        before: EventKey,
    },
    /// The last events, newest first.
    Backward {
        after: EventKey,
        before: EventKey,
    },
}

pub async fn page(conn: &mut Conn, filter: &EventFilter, span: Span, limit: i64) -> DbResult<Vec<Event>> {
    let (Span::Forward { after, before } | Span::Backward { after, before }) = span;
    let mut query = events::table
        .select((
            sql::<Nullable<BigInt>>("transaction_id::text::bigint"),
            events::id.nullable(),
            events::created_at.nullable(),
            events::tenant_id,
            events::project_id,
            events::job_id,
            events::dispatch_id,
            events::event_type.nullable(),
            events::payload.nullable(),
        ))
        .limit(limit)
        .into_boxed();
    query = if filter.with_installation {
        query.filter(events::tenant_id.eq(filter.tenant).or(events::tenant_id.is_null()))
    } else {
        query.filter(events::tenant_id.eq(filter.tenant))
    };
    if after > EventKey::default() {
        query = query.filter(key("(transaction_id, events.id) > (", after));
    }
    if before < EventKey::LAST {
        query = query.filter(key("(transaction_id, events.id) < (", before));
    }
    query = match span {
        Span::Forward { .. } => query.order(sql::<Bool>("transaction_id, events.id")),
        Span::Backward { .. } => query.order(sql::<Bool>("transaction_id DESC, events.id DESC")),
    };
    if let Some(project) = filter.project {
        query = query.filter(events::project_id.eq(project));
    }
    if let Some(job) = filter.job {
        query = query.filter(events::job_id.eq(job));
    }
    if let Some(dispatch) = filter.dispatch {
        query = query.filter(events::dispatch_id.eq(dispatch));
    }
    if filter.is_rare() {
        // Implied by the types, but written as in the predicate of the index.
        query = query
            .filter(sql::<Bool>("event_type <> 'schedule_execution_started'"))
            .filter(sql::<Bool>("event_type <> 'schedule_execution_completed'"));
    }
    if !filter.types.is_empty() {
        query = query.filter(events::event_type.eq_any(&filter.types));
    }
    if let Some(since) = filter.since {
        query = query.filter(events::created_at.ge(since));
    }
    if let Some(until) = filter.until {
        query = query.filter(events::created_at.lt(until));
    }
    let rows: Vec<Row> = query.load(conn).await?;
    Ok(rows.into_iter().filter_map(whole).collect())
}

/// Numbers need no escaping.
fn key(comparison: &str, position: EventKey) -> diesel::expression::SqlLiteral<Bool> {
    sql::<Bool>(&format!("{comparison}'{}'::xid8, {})", position.transaction, position.id))
}
