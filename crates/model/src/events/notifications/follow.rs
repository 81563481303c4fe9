//! The leader's work for notifications: reads the event stream, writes deliveries for matching
//! rules, gives them runs, and stores their outcomes.
//!
//! Everything happens in a fenced transaction of the caller, with the single cursor row locked. A
//! leader that dies has done nothing; the next one finds the same events.
//!
//! # Design notes
//! - The position needs no event that proves it, unlike those of clients
//!   ([`event_stream`](crate::events::stream)). It is stored in the same database, by a transaction
//!   with a higher number than the events before it. If that transaction is lost, so is what it
//!   read. Only a different server, after a restore from a dump, assigns new numbers; the position
//!   then begins before everything written there. Unread events of the dump cause no notifications.
//! - Rules are read a moment after the event was written. A rule matches no event older than
//!   itself.

mod cleanup;
mod evidence;
mod sending;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Double, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::connection::statement::column;
use crate::events::section::{self, MatchRow};
use crate::events::stream::EventKey;
use crate::schema::notification_cursor;
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::built_in;
use sched_domain::ids::{DEFAULT_TENANT, TenantId, time_ordered};
use sched_domain::notification::{Hold, HoldKey, Holding, MessageKind, RuleMatch, published};

use self::evidence::Evidence;

pub use self::cleanup::{CleanupResult, end_stale, prune};

statement! {
    LookNow = "follow/notifications_look.sql", (stale_seconds: f64 as Double) -> (Bool, Bool, Bool, Bool)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Work {
    pub has_rules: bool,
    pub has_waiting: bool,
    /// Some deliveries are being sent; the stream will report their outcome.
    pub has_sending: bool,
    pub is_stale: bool,
}

/// Maximum age of the position in seconds while no rule needs it, so that the first rule finds it
/// recent.
const STALE_SECONDS: f64 = 60.0;

/// Whether there is work: one statement, without a transaction.
pub async fn pending_work(conn: &mut Conn) -> DbResult<Work> {
    Ok(LookNow { stale_seconds: STALE_SECONDS }.get_result(conn).await?)
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub events: i64,
    pub dispatches: i64,
    /// Maximum number of open deliveries of one channel.
    pub room: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepResult {
    pub events: i64,
    pub deliveries: usize,
    /// Events that are only counted.
    pub held_back: usize,
    pub dispatched: usize,
    /// Deliveries that wait although the channel has room: the built-in job is missing.
    pub stuck: usize,
    /// Notify these queues after the commit.
    pub queues: Vec<String>,
    pub is_full: bool,
    /// The oldest other transaction that blocks the stream.
    pub waits_for: Option<i64>,
    /// Events of a dump are unsettled; nothing was read.
    pub has_foreign: bool,
    /// The position of another server was reset.
    pub is_anew: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct StepSettings<'a> {
    pub limits: Limits,
    /// Transactions that do not block the stream.
    pub ignored: &'a [i64],
    /// Public URL of the API, for the URLs of runs.
    pub public_url: Option<&'a str>,
}

/// One step: a section of the stream, and a page of deliveries. Call it in a fenced transaction.
pub async fn step(conn: &mut Conn, work: Work, settings: StepSettings<'_>) -> DbResult<StepResult> {
    let StepSettings { limits, ignored, public_url } = settings;
    let mut done = StepResult::default();
    let cursor = lock_cursor(conn).await?;
    let needs_stream = work.has_rules || work.has_sending;
    // Without rules or open deliveries, events are skipped.
    let max_rows = if needs_stream { limits.events } else { 0 };
    let stretch = read(conn, cursor.key, ignored, max_rows).await?;
    done.has_foreign = stretch.has_foreign;
    done.waits_for = stretch.waits_for;
    done.is_anew = cursor.server != 0 && cursor.server != stretch.server;
    // A skip is final: a rule created since the check must see these events.
    if !needs_stream && pending_work(conn).await?.has_rules {
        done.is_full = true;
    } else if cursor.server != stretch.server {
        let begin = if needs_stream { EventKey::before(1) } else { stretch.ends_at };
        move_to(conn, stretch.server, begin).await?;
        done.is_full = needs_stream;
    } else if !stretch.has_foreign {
        done.events = stretch.read;
        done.is_full = needs_stream && stretch.read >= limits.events;
        let upto = if done.is_full { stretch.last.unwrap_or(cursor.key) } else { stretch.ends_at };
        if work.has_sending {
            note_fates(conn, cursor.key, upto).await?;
        }
        let now = database_clock::now(conn).await?;
        (done.deliveries, done.held_back) = deliver(conn, stretch.matches, now, public_url).await?;
        move_to(conn, stretch.server, upto).await?;
    }
    if work.has_waiting || done.deliveries > 0 {
        sending::dispatch(conn, limits, &mut done).await?;
    }
    Ok(done)
}

struct Cursor {
    server: i64,
    key: EventKey,
}

async fn lock_cursor(conn: &mut Conn) -> DbResult<Cursor> {
    use notification_cursor as c;
    let query = c::table.select((c::server, c::transaction_id, c::event_id)).for_update();
    let found: Option<(i64, i64, i64)> = query.get_result(conn).await.optional()?;
    let (server, transaction, id) = found.ok_or_else(|| DbError::Corrupt {
        what: "notification_cursor".to_owned(),
        reason: "has no row, although the migration made it".to_owned(),
    })?;
    Ok(Cursor { server, key: EventKey { transaction, id } })
}

async fn move_to(conn: &mut Conn, server: i64, key: EventKey) -> DbResult<()> {
    use notification_cursor as c;
    diesel::update(c::table)
        .set((
            c::server.eq(server),
            c::transaction_id.eq(key.transaction),
            c::event_id.eq(key.id),
            c::moved_at.eq(database_clock::clock_timestamp()),
        ))
        .execute(conn)
        .await?;
    Ok(())
}

struct Stretch {
    /// All earlier events are settled.
    ends_at: EventKey,
    waits_for: Option<i64>,
    server: i64,
    has_foreign: bool,
    read: i64,
    last: Option<EventKey>,
    /// In the order of the events.
    matches: Vec<Match>,
}

struct Match {
    key: EventKey,
    at: DateTime<Utc>,
    tenant: TenantId,
    rule: (Uuid, String),
    channel: (Uuid, String),
    kind: MessageKind,
    min_interval_seconds: i32,
    job: Uuid,
    dispatch: Option<Uuid>,
    body: Value,
    stored: Option<Hold>,
}

fn whole(row: MatchRow) -> Option<Match> {
    Some(Match {
        key: EventKey { transaction: row.transaction?, id: row.id? },
        at: row.at?,
        tenant: row.tenant?,
        rule: (row.rule?, row.rule_name?),
        channel: (row.channel?, row.channel_name?),
        kind: row.kind?,
        min_interval_seconds: row.min_interval_seconds?,
        job: row.job?,
        dispatch: row.dispatch,
        body: row.body?,
        stored: row.sent_at.map(|sent_at| Hold { sent_at, held_back: row.held_back.unwrap_or_default() }),
    })
}

async fn read(conn: &mut Conn, after: EventKey, ignored: &[i64], limit: i64) -> DbResult<Stretch> {
    let EventKey { transaction, id } = after;
    let rows = section::matches(conn, (transaction, id), ignored, limit).await?;
    let mut stretch = None;
    let mut found = Vec::new();
    for (ends_at, next, server, has_foreign, read, last_transaction, last_id, row) in rows {
        stretch = Some(Stretch {
            ends_at: EventKey::before(ends_at),
            waits_for: Some(ends_at).filter(|ends_at| *ends_at < next),
            server,
            has_foreign,
            read,
            last: last_transaction.zip(last_id).map(|(transaction, id)| EventKey { transaction, id }),
            matches: Vec::new(),
        });
        found.extend(whole(row));
    }
    Ok(Stretch { matches: found, ..stretch.ok_or(DbError::NotFound)? })
}

statement! {
    Deliver<'a> = "follow/notifications_deliver.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        ids: &'a [Uuid] as Array<SqlUuid>,
        channels: &'a [Uuid] as Array<SqlUuid>,
        channel_names: &'a [&'a str] as Array<Text>,
        rules: &'a [Uuid] as Array<SqlUuid>,
        rule_names: &'a [&'a str] as Array<Text>,
        kinds: &'a [MessageKind] as Array<Text>,
        transactions: &'a [i64] as Array<BigInt>,
        events: &'a [i64] as Array<BigInt>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        dispatches: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
        bodies: &'a [Value] as Array<Jsonb>,
        held_back: &'a [i32] as Array<Int4>,
    ) -> ()
}

statement! {
    KeepHolds<'a> = "follow/notifications_hold.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        rules: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        kinds: &'a [MessageKind] as Array<Text>,
        sent_at: &'a [DateTime<Utc>] as Array<Timestamptz>,
        held_back: &'a [i32] as Array<Int4>,
    ) -> ()
}

/// Writes the deliveries of a section; returns their number, and the number of events that are only
/// counted.
async fn deliver(
    conn: &mut Conn,
    matches: Vec<Match>,
    now: DateTime<Utc>,
    public_url: Option<&str>,
) -> DbResult<(usize, usize)> {
    if matches.is_empty() {
        return Ok((0, 0));
    }
    let (all, mut holding) = (matches.len(), Holding::default());
    let deliveries: Vec<(Match, Uuid, i32)> = matches
        .into_iter()
        .filter_map(|found| {
            let Match { tenant, kind, job, at, min_interval_seconds, stored, .. } = found;
            let key = HoldKey { tenant, rule: found.rule.0, job, kind };
            let held_back = holding.admit(RuleMatch { key, at, min_interval_seconds, stored })?;
            Some((found, time_ordered(now), held_back))
        })
        .collect();
    let evidence = Evidence::read(conn, deliveries.iter().map(|(found, ..)| found), public_url).await?;
    let body = |(found, id, held_back): &(Match, Uuid, i32)| {
        let Value::Object(stored) = found.body.clone() else { return found.body.clone() };
        let mut fields = published(stored);
        fields.insert("id".to_owned(), json!(id));
        fields.insert("rule".to_owned(), json!(found.rule.1));
        fields.insert("held_back".to_owned(), json!(held_back));
        evidence.add(&mut fields);
        Value::Object(fields)
    };
    let deliver = Deliver {
        tenants: &column(&deliveries, |one| one.0.tenant),
        ids: &column(&deliveries, |one| one.1),
        channels: &column(&deliveries, |one| one.0.channel.0),
        channel_names: &column(&deliveries, |one| one.0.channel.1.as_str()),
        rules: &column(&deliveries, |one| one.0.rule.0),
        rule_names: &column(&deliveries, |one| one.0.rule.1.as_str()),
        kinds: &column(&deliveries, |one| one.0.kind),
        transactions: &column(&deliveries, |one| one.0.key.transaction),
        events: &column(&deliveries, |one| one.0.key.id),
        jobs: &column(&deliveries, |one| one.0.job),
        dispatches: &column(&deliveries, |one| one.0.dispatch),
        bodies: &column(&deliveries, body),
        held_back: &column(&deliveries, |one| one.2),
    };
    let written = if deliveries.is_empty() { 0 } else { deliver.execute(conn).await? };
    store_holds(conn, &holding.changed()).await?;
    Ok((written, all - deliveries.len()))
}

async fn store_holds(conn: &mut Conn, stored: &[(HoldKey, Hold)]) -> DbResult<()> {
    if stored.is_empty() {
        return Ok(());
    }
    let store = KeepHolds {
        tenants: &stored.iter().map(|(key, _)| key.tenant).collect::<Vec<_>>(),
        rules: &stored.iter().map(|(key, _)| key.rule).collect::<Vec<_>>(),
        jobs: &stored.iter().map(|(key, _)| key.job).collect::<Vec<_>>(),
        kinds: &stored.iter().map(|(key, _)| key.kind).collect::<Vec<_>>(),
        sent_at: &stored.iter().map(|(_, hold)| hold.sent_at).collect::<Vec<_>>(),
        held_back: &stored.iter().map(|(_, hold)| hold.held_back).collect::<Vec<_>>(),
    };
    store.execute(conn).await?;
    Ok(())
}

statement! {
    Fates<'a> = "follow/notifications_fates.sql", (
        tenant: TenantId as SqlUuid,
        job: &'a str as Text,
        transaction: i64 as BigInt,
        id: i64 as BigInt,
        upto_transaction: i64 as BigInt,
        upto_id: i64 as BigInt,
    ) -> ()
}

async fn note_fates(conn: &mut Conn, after: EventKey, upto: EventKey) -> DbResult<()> {
    let fates = Fates {
        tenant: DEFAULT_TENANT,
        job: built_in::NOTIFY,
        transaction: after.transaction,
        id: after.id,
        upto_transaction: upto.transaction,
        upto_id: upto.id,
    };
    fates.execute(conn).await?;
    Ok(())
}
