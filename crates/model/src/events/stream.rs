//! Reading the stream of events, in an order in which nothing is ever missed.
//!
//! Ids commit out of order: a transaction that took a lower one may commit after others were read. So the order is that of the
//! transactions that wrote the events, and of ids within each ([`EventKey`]), and a reader goes no further than the oldest transaction that
//! runs. What is before that is settled: it never changes, so a position in it may be kept for as long as the events are. Reading only;
//! where a reader stands is remembered by nobody but itself.
//!
//! # Design notes
//! - One transaction that takes hours would stop the stream for hours. Two kinds of them are not waited for: those of other databases of
//!   the server, which cannot write here; and those that have run for longer than [`WRITES_WITHIN`] without having touched events, because
//!   the column's default refuses events from them (migration 30). What has written events and goes on is waited for ([`Running`] tells who
//!   it is). Transactions that only read, such as a backup's, have no number and hold nobody up.
//! - `created_at` follows the order but for [`WRITES_WITHIN`]: a transaction writes its events within that time of its beginning,
//!   and it got its number after it began. So an instant is found in the order by halving, without an index by time.
//! - Numbers of transactions mean nothing on another server. [`origin`] tells servers apart; after a restore from a dump
//!   [`settle_foreign`] puts what came with it before everything new, and until it has, [`look`] gives nothing.
//! - Numbers are given a second time on the same server, too: after a crash or a failover those whose log had not reached the disk or the
//!   replica, after a restore to an earlier time all that came later. So what a reader keeps is never a number alone: it is the last event
//!   that it read ([`Mark`]), which was committed, and which is looked for when the reader goes on.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::events::append::{EXECUTION_COMPLETED, EXECUTION_STARTED};
use crate::schema::events;
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

/// How long after its beginning a transaction may write events; the default of `events.transaction_id` says the same.
pub const WRITES_WITHIN: Duration = Duration::from_secs(120);

/// Where an event stands in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventKey {
    /// Number of the transaction that wrote it.
    pub transaction: i64,
    /// Its id; 0 stands before all events of the transaction.
    pub id: i64,
}

impl EventKey {
    /// After everything.
    pub const LAST: Self = Self { transaction: i64::MAX, id: i64::MAX };

    /// Before all events of a transaction.
    #[must_use]
    pub const fn before(transaction: i64) -> Self {
        Self { transaction, id: 0 }
    }
}

/// How far a reader has come: the last event that it has read, or the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where the event stands; all zero for the beginning.
    pub key: EventKey,
    /// When it was written; for the beginning, when it was the beginning.
    pub at: DateTime<Utc>,
}

impl Mark {
    /// Before everything.
    #[must_use]
    pub fn beginning(at: DateTime<Utc>) -> Self {
        Self { key: EventKey::default(), at }
    }
}

/// An event as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Where it stands.
    pub key: EventKey,
    /// When it was written, by the database clock.
    pub at: DateTime<Utc>,
    /// Whose it is; `None` for the installation's.
    pub tenant_id: Option<TenantId>,
    /// Project it concerns.
    pub project_id: Option<ProjectId>,
    /// Job it concerns.
    pub job_id: Option<JobId>,
    /// Dispatch it concerns.
    pub dispatch_id: Option<DispatchId>,
    /// What happened.
    pub event_type: String,
    /// Details.
    pub payload: serde_json::Value,
}

/// What a look at the whole stream has found.
#[derive(Debug, Clone)]
pub struct Look {
    /// All events before this are settled, and those among them that follow the mark that was given are in `events`, if it holds less
    /// than was asked for and nothing is foreign.
    pub settled: EventKey,
    /// Number of the next transaction: where there would be no wait for any.
    pub next_transaction: i64,
    /// When, by the database clock.
    pub at: DateTime<Utc>,
    /// Which server it is; see [`Origin`].
    pub server: i64,
    /// Whether there are events that came with a dump and are not settled.
    pub has_foreign: bool,
    /// Whether the event of the mark is there.
    pub is_there: bool,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// The columns of an event: all of them, or none of those that it must have.
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

/// What the stream is like, and one event.
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

/// The events of all tenants that follow `after` and are settled, at most `limit`. Transactions in `ignored` are not waited for.
pub async fn look(conn: &mut Conn, after: Mark, ignored: &[i64], limit: i64) -> DbResult<Look> {
    let Mark { key: EventKey { transaction, id }, at } = after;
    let rows: Vec<LookRow> = LookAt { transaction, id, at, ignored, limit }.load(conn).await?;
    // There is one row at least, whatever was found.
    let mut seen = None;
    let mut events = Vec::new();
    for (ends_at, next_transaction, at, server, has_foreign, is_there, row) in rows {
        let settled = EventKey::before(ends_at);
        seen =
            Some(Look { settled, next_transaction, at, server, has_foreign, is_there, events: Vec::new() });
        events.extend(whole(row));
    }
    Ok(Look { events, ..seen.ok_or(DbError::NotFound)? })
}

/// Where the stream stands: the end of what is settled, and all that [`look`] says besides events.
pub async fn stand(conn: &mut Conn, ignored: &[i64]) -> DbResult<Look> {
    // The position of no event, after which there is none.
    let last = Mark { key: EventKey { id: 0, ..EventKey::LAST }, at: DateTime::UNIX_EPOCH };
    look(conn, last, ignored, 0).await
}

/// The last event before a position, of whoever's may be seen.
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

/// A transaction that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Running {
    /// Its number.
    pub transaction: i64,
    /// Whether it belongs to another database of the server.
    pub is_elsewhere: bool,
    /// Whether it may have written events.
    pub has_events: bool,
    /// Whether it still ran when it was looked for.
    pub is_found: bool,
    /// The server process it runs in; `None` for one that is prepared.
    pub process: Option<i32>,
}

statement! {
    RunningNow = "stream/events_running.sql", () -> (BigInt, Bool, Bool, Bool, Nullable<Int4>)
}

/// The transactions that run, on the whole server. Dearer than [`look`]: ask when the stream does not go on.
pub async fn running(conn: &mut Conn) -> DbResult<Vec<Running>> {
    Ok(RunningNow {}.load(conn).await?)
}

statement! {
    OpenNow = "stream/events_open.sql", () -> (BigInt, Array<BigInt>)
}

/// The number of the next transaction, and those of the transactions that run, on the whole server.
pub async fn open_transactions(conn: &mut Conn) -> DbResult<(i64, Vec<i64>)> {
    Ok(OpenNow {}.get_result(conn).await?)
}

/// Of what a position is a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Origin {
    /// Which server it is; copies of its files are the same one, a restored dump is not.
    pub server: i64,
    /// Number of the next transaction.
    pub next_transaction: i64,
    /// Beginning of the oldest month that is kept.
    pub oldest: Option<DateTime<Utc>>,
    /// Whether the event of the mark that was asked about is there.
    pub is_there: bool,
}

statement! {
    OriginOf = "stream/events_origin.sql", (transaction: i64 as BigInt, id: i64 as BigInt, at: DateTime<Utc> as Timestamptz)
        -> (BigInt, BigInt, Nullable<Timestamptz>, Bool)
}

/// Of what positions are positions now, and whether a mark is one of them still. Sees the events that the transaction may see.
pub async fn origin(conn: &mut Conn, mark: Mark) -> DbResult<Origin> {
    let Mark { key: EventKey { transaction, id }, at } = mark;
    Ok(OriginOf { transaction, id, at }.get_result(conn).await?)
}

statement! {
    SettleForeign = "stream/events_settle_foreign.sql", (limit: i64 as BigInt) -> BigInt
}

/// Puts the first of the events that came with a dump of another server before everything that is written here, at most `limit`; returns
/// how many.
pub async fn settle_foreign(conn: &mut Conn, limit: i64) -> DbResult<u64> {
    let settled: i64 = SettleForeign { limit }.get_result(conn).await?;
    Ok(u64::try_from(settled).unwrap_or(0))
}

/// Whose events are read, and which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    /// The tenant.
    pub tenant: TenantId,
    /// Those of the installation too.
    pub with_installation: bool,
    /// Only of this project.
    pub project: Option<ProjectId>,
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only of this dispatch.
    pub dispatch: Option<DispatchId>,
    /// Only of these types; empty for all.
    pub types: Vec<String>,
    /// Only those written at this instant or later.
    pub since: Option<DateTime<Utc>>,
    /// Only those written before this instant.
    pub until: Option<DateTime<Utc>>,
}

impl EventFilter {
    /// All events of a tenant.
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

    /// Where an event that is meant may stand, and nothing else.
    #[must_use]
    pub const fn only(key: EventKey) -> Span {
        let EventKey { transaction, id } = key;
        Span::Forward {
            after: EventKey { transaction, id: id.saturating_sub(1) },
            before: EventKey { transaction, id: id.saturating_add(1) },
        }
    }

    /// Whether an event is meant. The same as what [`page`] reads.
    #[must_use]
    pub fn takes(&self, event: &Event) -> bool {
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

    /// Whether it leaves out what most events are.
    fn is_rare(&self) -> bool {
        let is_common = |name: &String| [EXECUTION_STARTED, EXECUTION_COMPLETED].contains(&name.as_str());
        !self.types.is_empty() && !self.types.iter().any(is_common)
    }
}

statement! {
    PositionAt = "stream/events_position.sql", (tenant: TenantId as SqlUuid, at: DateTime<Utc> as Timestamptz) -> Nullable<BigInt>
}

/// The last event of a tenant that is older than an instant, with all that stand before it.
///
/// Nothing of anybody's stands before it that is of the instant or later. After it may stand some that are older.
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

/// A position after all events before an instant, of whomever. Before it may stand some that are younger.
pub async fn position_after(conn: &mut Conn, tenant: TenantId, at: DateTime<Utc>) -> DbResult<EventKey> {
    let found = PositionAt { tenant, at: at + writes_within() }.get_result::<Option<i64>>(conn).await?;
    // Where the tenant has no younger one, there may be some of the installation; and what came with a dump is in no order.
    let Some(found) = found.filter(|found| *found > 0) else { return Ok(EventKey::LAST) };
    let span = Span::Forward { after: EventKey::before(found), before: EventKey::LAST };
    let next = page(conn, &EventFilter::of(tenant), span, 1).await?.pop();
    Ok(next.map_or(EventKey::LAST, |event| EventKey::before(event.key.transaction)))
}

fn writes_within() -> TimeDelta {
    TimeDelta::from_std(WRITES_WITHIN).unwrap_or_default()
}

/// Which part of the stream a page is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The first events between two positions, oldest first.
    Forward {
        /// After this one.
        after: EventKey,
        /// Before this one.
        before: EventKey,
    },
    /// The last events between two positions, newest first.
    Backward {
        /// After this one.
        after: EventKey,
        /// Before this one.
        before: EventKey,
    },
}

/// Events of a tenant, at most `limit`.
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
        // Says no more than the types do, but in the words of the index.
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

/// A comparison of the key with a position. Both are numbers, so that there is nothing to escape.
fn key(comparison: &str, position: EventKey) -> diesel::expression::SqlLiteral<Bool> {
    sql::<Bool>(&format!("{comparison}'{}'::xid8, {})", position.transaction, position.id))
}
