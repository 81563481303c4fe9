//! Writes of a batch of ends, set-based: runs, skips, and the met conditions of the edges.
//!
//! Each function is one statement in the transaction of the batch, under the locks on its jobs.

use std::borrow::Cow;
use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::plan::{Dispatch, Mark, NewSkip};
use crate::dispatching::insert::{NewDispatch, Origin};
use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, Term};

/// The runs to insert. The key makes each end one run of a job, however often it is reported.
pub(super) fn with_traces<'n>(
    new: &'n [Dispatch],
    traces: &'n HashMap<DispatchId, String>,
) -> Vec<NewDispatch<'n>> {
    let new = new.iter().map(|d| NewDispatch {
        id: d.id,
        tenant_id: d.tenant_id,
        job_id: d.job_id,
        scheduled_for: d.run.at,
        available_at: d.run.at,
        is_queued: d.is_queued,
        expires_at: d.expires_at,
        queue: d.queue.clone(),
        priority: d.priority,
        job_version: d.job_version,
        args: d.args.as_ref().map(Cow::Borrowed),
        is_catch_up: false,
        follows: None,
        origin: Origin {
            trigger_id: Some(d.run.by.0),
            traceparent: traces.get(&d.run.by).map(String::as_str),
            ..Origin::default()
        },
    });
    new.collect()
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
