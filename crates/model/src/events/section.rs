//! The next section of the event stream: settled events after a position.
//!
//! The readers of the API and the notifications of the leader share the beginning of their
//! statements, so that both read the same events in the same order ([`super::stream`]).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::Value;
use uuid::Uuid;

use crate::{Conn, DbResult};
use sched_domain::built_in;
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};
use sched_domain::notification::MessageKind;

/// The position of an event, or 0 for an id before all events of the transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) transaction: i64,
    pub(crate) id: i64,
    /// Time of the event, which proves that the position belongs to this database.
    pub(crate) at: DateTime<Utc>,
}

/// The columns of an event; in a section without events, none.
#[derive(Debug, Queryable)]
pub(crate) struct EventRow {
    pub(crate) transaction: Option<i64>,
    pub(crate) id: Option<i64>,
    pub(crate) at: Option<DateTime<Utc>>,
    pub(crate) tenant_id: Option<TenantId>,
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) job_id: Option<JobId>,
    pub(crate) dispatch_id: Option<DispatchId>,
    pub(crate) event_type: Option<String>,
    pub(crate) payload: Option<Value>,
}

/// End of the settled events, next transaction, time, server, whether foreign events exist, whether
/// the position exists, and an event.
pub(crate) type SectionRow = (i64, i64, DateTime<Utc>, i64, bool, bool, EventRow);

#[rustfmt::skip]
type EventTypes = (
    Nullable<BigInt>, Nullable<BigInt>, Nullable<Timestamptz>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>,
    Nullable<Text>, Nullable<Jsonb>,
);

statement! {
    Look<'a> = "section/events_look.sql" after "section/events_section.sql", (
        transaction: i64 as BigInt,
        id: i64 as BigInt,
        ignored: &'a [i64] as Array<BigInt>,
        limit: i64 as BigInt,
        at: DateTime<Utc> as Timestamptz,
    ) -> (BigInt, BigInt, Timestamptz, BigInt, Bool, Bool, EventTypes)
}

/// At least one row.
pub(crate) async fn look(
    conn: &mut Conn,
    after: Position,
    ignored: &[i64],
    limit: i64,
) -> DbResult<Vec<SectionRow>> {
    let Position { transaction, id, at } = after;
    Ok(Look { transaction, id, ignored, limit, at }.load(conn).await?)
}

/// A match of a rule with an event; in a section without matches, no column has a value.
#[derive(Queryable)]
pub(crate) struct MatchRow {
    pub(crate) transaction: Option<i64>,
    pub(crate) id: Option<i64>,
    pub(crate) at: Option<DateTime<Utc>>,
    pub(crate) tenant: Option<TenantId>,
    pub(crate) rule: Option<Uuid>,
    pub(crate) rule_name: Option<String>,
    pub(crate) channel: Option<Uuid>,
    pub(crate) channel_name: Option<String>,
    pub(crate) kind: Option<MessageKind>,
    pub(crate) min_interval_seconds: Option<i32>,
    pub(crate) job: Option<Uuid>,
    pub(crate) dispatch: Option<Uuid>,
    pub(crate) body: Option<Value>,
    pub(crate) sent_at: Option<DateTime<Utc>>,
    pub(crate) held_back: Option<i32>,
}

/// End of the settled events, next transaction, server, whether foreign events exist, number of
/// events, position of the last one, and a match.
pub(crate) type MatchedRow = (i64, i64, i64, bool, i64, Option<i64>, Option<i64>, MatchRow);

#[rustfmt::skip]
type MatchTypes = (
    Nullable<BigInt>, Nullable<BigInt>, Nullable<Timestamptz>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<Text>, Nullable<SqlUuid>,
    Nullable<Text>, Nullable<Text>, Nullable<Int4>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<Jsonb>, Nullable<Timestamptz>, Nullable<Int4>,
);

statement! {
    Matches<'a> = "section/notifications_match.sql" after "section/events_section.sql", (
        transaction: i64 as BigInt,
        id: i64 as BigInt,
        ignored: &'a [i64] as Array<BigInt>,
        limit: i64 as BigInt,
        sender: &'a str as Text,
    ) -> (BigInt, BigInt, BigInt, Bool, BigInt, Nullable<BigInt>, Nullable<BigInt>, MatchTypes)
}

/// The matches of the active rules with the section after a transaction and id. At least one row.
pub(crate) async fn matches(
    conn: &mut Conn,
    (transaction, id): (i64, i64),
    ignored: &[i64],
    limit: i64,
) -> DbResult<Vec<MatchedRow>> {
    Ok(Matches { transaction, id, ignored, limit, sender: built_in::NOTIFY }.load(conn).await?)
}
