//! Finds and locks the jobs of triggers.

use super::super::dispatches::STANDARD_PRIORITY;
use super::super::room::Instances;

use super::Order;
use crate::{Conn, DbResult};
use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Int4, Jsonb, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::OverlapPolicy;
use serde_json::Value;
use uuid::Uuid;

statement! {
    /// Raw: the two lookups are one statement with the lock.
    Wait<'a> = "lock/trigger_wait.sql", (
        tenant: TenantId as SqlUuid,
        id: Option<Uuid> as Nullable<SqlUuid>,
        name: Option<&'a str> as Nullable<Text>,
    ) -> SqlUuid
}

statement! {
    /// Raw: skips jobs that other transactions have locked.
    Lock<'a> = "lock/triggers_lock.sql", (
        tenant: TenantId as SqlUuid,
        standard_priority: i16 as SmallInt,
        is_alone: bool as Bool,
        ids: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
        names: &'a [Option<&'a str>] as Array<Nullable<Text>>,
    ) -> FoundColumns
}

#[rustfmt::skip]
type FoundColumns = (
    Nullable<SqlUuid>, Nullable<Text>, Nullable<Bool>, Nullable<Bool>, Nullable<Jsonb>, Nullable<Text>, SmallInt,
    Nullable<Text>, Nullable<Int4>, Nullable<Int4>, Nullable<Int4>, Nullable<Int4>, Nullable<BigInt>, Nullable<Jsonb>, Nullable<Jsonb>,
    Nullable<BigInt>, Timestamptz,
);

/// The job of a trigger: without an id if it does not exist, and with only its id if it is not locked.
#[derive(Queryable)]
pub(super) struct Found {
    pub(super) job: Option<JobId>,
    pub(super) function: Option<String>,
    pub(super) is_built_in: Option<bool>,
    pub(super) is_active: Option<bool>,
    pub(super) args_schema: Option<Value>,
    pub(super) queue: Option<String>,
    pub(super) priority: i16,
    pub(super) overlap_policy: Option<OverlapPolicy>,
    pub(super) max_instances: Option<i32>,
    pub(super) active: Option<i32>,
    pub(super) queued: Option<i32>,
    pub(super) start_within_seconds: Option<i32>,
    pub(super) version: Option<i64>,
    pub(super) args: Option<Value>,
    pub(super) unstored_args: Option<Value>,
    /// Number of runs that the tenant may create in a minute; `None` without a quota.
    pub(super) quota: Option<i64>,
    pub(super) now: DateTime<Utc>,
}

/// A job that is locked.
pub(super) struct Locked {
    pub(super) id: JobId,
    pub(super) function: String,
    pub(super) is_built_in: bool,
    pub(super) is_active: bool,
    pub(super) args_schema: Option<Value>,
    pub(super) queue: String,
    pub(super) priority: i16,
    pub(super) instances: Instances,
    pub(super) start_within_seconds: Option<i32>,
    pub(super) version: i64,
    /// Only of a single trigger.
    pub(super) args: Option<Value>,
    /// The arguments, unless the version of the job is stored with them.
    pub(super) unstored_args: Option<Value>,
}

impl Found {
    pub(super) fn locked(self) -> Option<Locked> {
        Some(Locked {
            id: self.job?,
            function: self.function?,
            is_built_in: self.is_built_in?,
            is_active: self.is_active?,
            args_schema: self.args_schema,
            queue: self.queue?,
            priority: self.priority,
            instances: Instances {
                overlap_policy: self.overlap_policy?,
                max_instances: self.max_instances?,
                active: self.active?,
                queued: self.queued?,
            },
            start_within_seconds: self.start_within_seconds,
            version: self.version?,
            args: self.args,
            unstored_args: self.unstored_args,
        })
    }
}

/// The names of the jobs of triggers, column by column.
pub(super) struct Names<'a> {
    pub(super) ids: Vec<Option<Uuid>>,
    pub(super) names: Vec<Option<&'a str>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(orders: &[Order<'a>]) -> Self {
        Self {
            ids: orders.iter().map(|order| names_of(order).0).collect(),
            names: orders.iter().map(|order| names_of(order).1).collect(),
        }
    }

    /// Locks the jobs and returns one row per trigger, in their order.
    pub(super) async fn find(
        &self,
        conn: &Conn,
        tenant: TenantId,
        is_alone: bool,
    ) -> diesel::QueryResult<Vec<Found>> {
        let (ids, names) = (&self.ids, &self.names);
        let lock = Lock { tenant, standard_priority: STANDARD_PRIORITY, is_alone, ids, names };
        lock.load(&mut { conn }).await
    }
}

/// The text that names the job of a trigger, as an id and as a name.
fn names_of<'a>(order: &Order<'a>) -> (Option<Uuid>, Option<&'a str>) {
    // No name contains a NUL, and PostgreSQL rejects one.
    (order.job.parse().ok(), Some(order.job).filter(|name| !name.contains('\0')))
}

/// Waits for the lock on the job of a trigger, and takes it. `None` if there is no such job.
pub(super) async fn wait_for_job(
    conn: &mut Conn,
    tenant: TenantId,
    order: &Order<'_>,
) -> DbResult<Option<JobId>> {
    let (id, name) = names_of(order);
    Ok(Wait { tenant, id, name }.get_result(conn).await.optional()?)
}
