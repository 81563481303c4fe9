//! What a batch of ends writes, set-based: dispatches, skips, and what was met of the edges.
//!
//! Each function is one statement in the transaction of the batch, under the locks on the jobs it writes for.

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Bool, Int2, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::plan::{Mark, NewDispatch, NewSkip};
use crate::{Conn, DbResult};
use sched_domain::ids::{InstanceId, Term};

statement! {
    Create<'a> = "write/job_ends_dispatch.sql", (
        instance: InstanceId as SqlUuid,
        term: Term as BigInt,
        ids: &'a [Uuid] as Array<SqlUuid>,
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        ended_at: &'a [DateTime<Utc>] as Array<Timestamptz>,
        ended_by: &'a [Uuid] as Array<SqlUuid>,
        queues: &'a [&'a str] as Array<Text>,
        priorities: &'a [i16] as Array<Int2>,
        args: &'a [&'a serde_json::Value] as Array<Jsonb>,
        in_line: &'a [bool] as Array<Bool>,
    ) -> (Text, Bool)
}

/// Returns the queue of each dispatch that was created, and whether it waits in line.
pub(super) async fn create(
    conn: &mut Conn,
    instance: InstanceId,
    term: Term,
    new: &[NewDispatch],
) -> DbResult<Vec<(String, bool)>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let created = Create {
        instance,
        term,
        ids: &new.iter().map(|d| d.id.0).collect::<Vec<_>>(),
        tenants: &new.iter().map(|d| d.tenant_id.0).collect::<Vec<_>>(),
        jobs: &new.iter().map(|d| d.job_id.0).collect::<Vec<_>>(),
        ended_at: &new.iter().map(|d| d.run.at).collect::<Vec<_>>(),
        ended_by: &new.iter().map(|d| d.run.by.0).collect::<Vec<_>>(),
        queues: &new.iter().map(|d| d.queue.as_str()).collect::<Vec<_>>(),
        priorities: &new.iter().map(|d| d.priority).collect::<Vec<_>>(),
        args: &new.iter().map(|d| &d.args).collect::<Vec<_>>(),
        in_line: &new.iter().map(|d| d.is_in_line).collect::<Vec<_>>(),
    }
    .load(conn)
    .await?;
    Ok(created)
}

statement! {
    Skip<'a> = "write/job_ends_skip.sql", (
        term: Term as BigInt,
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        at: &'a [DateTime<Utc>] as Array<Timestamptz>,
        reasons: &'a [&'static str] as Array<Text>,
        details: &'a [&'a str] as Array<Text>,
        ended_by: &'a [Uuid] as Array<SqlUuid>,
    ) -> SqlUuid
}

pub(super) async fn skip(conn: &mut Conn, term: Term, new: &[NewSkip]) -> DbResult<()> {
    if new.is_empty() {
        return Ok(());
    }
    Skip {
        term,
        tenants: &new.iter().map(|s| s.tenant_id.0).collect::<Vec<_>>(),
        jobs: &new.iter().map(|s| s.job_id.0).collect::<Vec<_>>(),
        at: &new.iter().map(|s| s.at).collect::<Vec<_>>(),
        reasons: &new.iter().map(|s| s.reason.as_str()).collect::<Vec<_>>(),
        details: &new.iter().map(|s| s.detail.as_str()).collect::<Vec<_>>(),
        ended_by: &new.iter().map(|s| s.ended_by.0).collect::<Vec<_>>(),
    }
    .execute(conn)
    .await?;
    Ok(())
}

statement! {
    MarkEdges<'a> = "write/job_ends_mark.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        after: &'a [Uuid] as Array<SqlUuid>,
        met_by: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
        met_at: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
    ) -> SqlUuid
}

pub(super) async fn mark(conn: &mut Conn, marks: &[Mark]) -> DbResult<()> {
    if marks.is_empty() {
        return Ok(());
    }
    MarkEdges {
        tenants: &marks.iter().map(|m| m.tenant_id.0).collect::<Vec<_>>(),
        jobs: &marks.iter().map(|m| m.job_id.0).collect::<Vec<_>>(),
        after: &marks.iter().map(|m| m.edge.after.0).collect::<Vec<_>>(),
        met_by: &marks.iter().map(|m| m.edge.met_by.map(|id| id.0)).collect::<Vec<_>>(),
        met_at: &marks.iter().map(|m| m.edge.met_at).collect::<Vec<_>>(),
    }
    .execute(conn)
    .await?;
    Ok(())
}
