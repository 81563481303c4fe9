//! Gives waiting deliveries their runs of the built-in job.
//!
//! Runs in the step's fenced transaction; a leader that dies has marked and inserted nothing.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::json;
use uuid::Uuid;

use super::{Limits, StepResult};
use crate::dispatching::insert::{self, NewDispatch, Origin};
use crate::{Conn, DbResult, connection::database_clock};
use sched_domain::built_in;
use sched_domain::ids::{DEFAULT_TENANT, DispatchId, JobId, TenantId, time_ordered};
use sched_domain::run_state::Trigger;

statement! {
    Waiting = "notifications_waiting.sql", (room: i64 as BigInt, limit: i64 as BigInt) -> (SqlUuid, SqlUuid)
}

statement! {
    Send<'a> = "notifications_send.sql", (
        tenant: TenantId as SqlUuid,
        job: &'a str as Text,
        tenants: &'a [TenantId] as Array<SqlUuid>,
        deliveries: &'a [Uuid] as Array<SqlUuid>,
        dispatches: &'a [DispatchId] as Array<SqlUuid>,
    ) -> (SqlUuid, SqlUuid, SqlUuid, SqlUuid, Text, SmallInt, BigInt, Timestamptz)
}

pub(super) async fn dispatch(conn: &mut Conn, limits: Limits, done: &mut StepResult) -> DbResult<()> {
    let waiting: Vec<(TenantId, Uuid)> =
        Waiting { room: limits.room, limit: limits.dispatches }.load(conn).await?;
    if waiting.is_empty() {
        return Ok(());
    }
    let now = database_clock::now(conn).await?;
    let (tenants, deliveries): (Vec<TenantId>, Vec<Uuid>) = waiting.into_iter().unzip();
    let dispatches: Vec<DispatchId> = deliveries.iter().map(|_| DispatchId(time_ordered(now))).collect();
    let send = Send {
        tenant: DEFAULT_TENANT,
        job: built_in::NOTIFY,
        tenants: &tenants,
        deliveries: &deliveries,
        dispatches: &dispatches,
    };
    let sent: Vec<DeliveryRun> = send.load(conn).await?;
    let new: Vec<NewDispatch<'_>> = sent.into_iter().map(DeliveryRun::into_dispatch).collect();
    let created = insert::insert(conn, None, Trigger::Api, &new).await?;
    done.queues = created.iter().map(|new| new.queue.clone()).collect();
    done.dispatched = created.len();
    done.stuck = deliveries.len() - done.dispatched;
    done.queues.sort_unstable();
    done.queues.dedup();
    Ok(())
}

#[derive(Queryable)]
struct DeliveryRun {
    tenant: TenantId,
    delivery: Uuid,
    dispatch: DispatchId,
    job: JobId,
    queue: String,
    priority: i16,
    version: i64,
    at: DateTime<Utc>,
}

impl DeliveryRun {
    fn into_dispatch(self) -> NewDispatch<'static> {
        NewDispatch {
            id: self.dispatch,
            tenant_id: DEFAULT_TENANT,
            job_id: self.job,
            scheduled_for: self.at,
            available_at: self.at,
            is_queued: false,
            expires_at: None,
            queue: self.queue,
            priority: self.priority,
            job_version: self.version,
            args: Some(Cow::Owned(json!({"tenant": self.tenant, "delivery": self.delivery}))),
            is_catch_up: false,
            follows: None,
            origin: Origin {
                user: Some("notifications"),
                trigger_id: Some(self.dispatch.0),
                ..Origin::default()
            },
        }
    }
}
