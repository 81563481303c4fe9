//! Triggers: runs of a job outside its schedule, singly or as a batch of a tenant.
//!
//! 1. The jobs are found and locked, in the order of their ids.
//! 2. Each trigger gets its own outcome ([`Fate`]). A rejected trigger stops no other.
//! 3. The runs, the counters of their jobs and an audit event for each run are written.
//!
//! # A batch ([`trigger_batch`])
//! It is its own transaction of two round trips for any size, if each job allows any number of runs:
//! begin and the one statement of `plain`, commit. Such a trigger locks its job FOR KEY SHARE, so it
//! waits for no tick, count or other trigger, and its runs are counted later
//! ([`crate::running::job_counters`]).
//!
//! Triggers that need the room of their job, a quota or a rejection add two round trips: locks, then
//! runs and audit events. A quota adds two more. A batch never waits for a job that another
//! transaction has locked: the caller triggers that job alone. The same holds for a job whose
//! arguments have a schema, so that a batch stays cheap.
//!
//! # A single trigger ([`trigger`])
//! It runs in the caller's transaction and waits for the lock on its job, which orders it with
//! ticks, counts of ends and other triggers of the job. Only a single trigger has an idempotency key
//! or a required version.
//!
//! # Locks
//! `scheduled_jobs` in the order of their ids, then `tenant_usage` if the tenant has a quota of
//! runs, then `job_dispatch`. See [`super::insert`].
//!
//! A deletion of a job and a change of its overlap policy take FOR UPDATE, the only lock that
//! conflicts with FOR KEY SHARE. After it, every run by a plain trigger is committed and its row in
//! `uncounted_openings` is visible. The new policy decides about all later triggers.
//!
//! # Crashes
//! Each function writes in one transaction. A process that dies before the commit has created
//! nothing.

mod lock;
mod plain;

use std::borrow::Cow;
use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, Jsonb, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::{Value, json};

use uuid::Uuid;

use self::lock::{Found, Locked, Names, wait_for_job};
use super::arguments::RunArguments;
use super::insert::{self, NewDispatch, Origin, dispatch_statement};
use super::quotas::{self, DispatchesUsedUp, QuotaGrant};
use super::room::Rooms;
use super::tick::QuotaRequest;
use crate::connection::pipelined::Pipelined;
use crate::connection::row_security::Scope;
use crate::identity::audit::{self, AuditEntry};
use crate::schema::job_dispatch;
use crate::{Conn, DbError, DbResult};
use sched_domain::args_schema::{self, Misfit};
use sched_domain::ids::{DispatchId, JobId, TenantId, time_ordered};
use sched_domain::run_state::Trigger;

#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Id or name. A name can be the id of another job; then the id counts.
    pub job: &'a str,
    /// Whether the user may run built-in functions.
    pub may_run_built_in: bool,
    /// By a user or by a program.
    pub triggered_by: Trigger,
    /// The user, stored in the run.
    pub user: &'a str,
    /// Arguments instead of the job's; an object.
    pub args: Option<&'a Value>,
    /// W3C trace context.
    pub traceparent: Option<&'a str>,
    /// The user, for the audit log.
    pub actor: &'a str,
    /// Id of the request, for the audit log.
    pub request: &'a str,
    /// Network address of the client, for the audit log.
    pub address: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Demands<'a> {
    /// The same key for the same job is the same run.
    pub idempotency_key: Option<&'a str>,
    /// The required version of the job.
    pub version: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    pub job: JobId,
    pub dispatch: DispatchId,
    pub queue: String,
    /// The job has no room. Ends that are not counted yet may make room: call
    /// [`crate::connection::notify::jobs_ended`] after the commit.
    pub is_queued: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Created(Created),
    /// The key was used before, for this run.
    Duplicate(DispatchId),
    /// The key was used before, for this run with other arguments.
    KeyReused(DispatchId),
    NoSuchJob,
    /// The job has a built-in function, and the user may not run it.
    BuiltIn,
    /// The function of the job, named here, is inactive.
    FunctionInactive(String),
    ArgsRefused(Vec<Misfit>),
    /// The quota of runs of the tenant is used up for this minute.
    QuotaUsedUp(DispatchesUsedUp),
    /// The job has this version instead of the expected one. The version is known only after the
    /// writes, so the caller rolls its transaction back.
    OtherVersion(i64),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TriggeredBatch {
    /// The outcomes in the order of the triggers. `None` if a trigger is not done and needs its own
    /// transaction ([`trigger`]): another transaction has locked the job, or its arguments have a
    /// schema.
    pub fates: Vec<Option<Fate>>,
    /// Whether the notification of the workers followed the commit.
    pub is_notified: bool,
}

dispatch_statement! {
    /// Raw: inserts from a query that locks.
    Plain<'a> = "trigger/trigger_plain.sql", "trigger/trigger_plain_end.sql", (
        tenant: TenantId as SqlUuid,
        standard_priority: i16 as SmallInt,
        ids: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
        names: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        args: &'a [Option<&'a Value>] as Array<Nullable<Jsonb>>,
        sources: &'a [Trigger] as Array<Text>,
        users: &'a [&'a str] as Array<Text>,
        traceparents: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        actors: &'a [&'a str] as Array<Text>,
        requests: &'a [&'a str] as Array<Text>,
        addresses: &'a [Option<&'a str>] as Array<Nullable<Text>>,
    ) -> (Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<Text>)
}

/// Triggers jobs in a separate transaction, as the API's role in that tenant
/// ([`crate::connection::row_security::API_ROLE`]).
///
/// If there are runs and `may_notify` returns true, the notification of the workers follows the
/// commit on the connection. Else call [`crate::connection::notify::dispatches_waiting`] afterwards.
///
/// # Errors
/// Nothing was written; after an outage ([`DbError::is_outage`]) the result is unknown.
pub async fn trigger_batch(
    conn: &mut Conn,
    tenant: TenantId,
    orders: &[Order<'_>],
    may_notify: impl FnOnce() -> bool,
) -> DbResult<TriggeredBatch> {
    if orders.is_empty() {
        return Ok(TriggeredBatch::default());
    }
    // The statements take lists of keys: their plans do not depend on the parameters.
    let scope = Scope::tenant(tenant).with_general_plans();
    let names = Names::of(orders);
    let pipelined = Pipelined::new(conn);
    let work = async {
        let plain = plain::trigger(pipelined.conn(), tenant, orders, &names);
        let done = pipelined.begin(scope, plain).await?;
        if done.len() != orders.len() {
            return Err(corrupt(format!("{} triggers have {} outcomes", orders.len(), done.len())));
        }
        let is_left = done.iter().zip(orders).filter(|(fate, _)| fate.is_none());
        let left: Vec<Order<'_>> = is_left.map(|(_, order)| *order).collect();
        if left.is_empty() {
            return Ok(done);
        }
        let found = Names::of(&left).find(pipelined.conn(), tenant, false).await?;
        let batch = Batch { tenant, orders: &left, demands: Demands::default() };
        let mut later = batch.decide_and_write(pipelined.conn(), found).await?.into_iter();
        Ok(done.into_iter().map(|fate| fate.or_else(|| later.next().flatten())).collect())
    };
    let done: DbResult<Vec<Option<Fate>>> = work.await;
    let queues = done.as_ref().map(|fates| queues_of(fates)).unwrap_or_default();
    let is_notified = !queues.is_empty() && may_notify();
    let fates = if is_notified {
        pipelined.end_and_notify(done, &queues).await?
    } else {
        pipelined.end(done).await?
    };
    Ok(TriggeredBatch { fates, is_notified })
}

fn queues_of(fates: &[Option<Fate>]) -> Vec<String> {
    let queue = |fate: &Option<Fate>| match fate {
        Some(Fate::Created(created)) => Some(created.queue.clone()),
        Some(_) | None => None,
    };
    fates.iter().filter_map(queue).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Triggers one job, in the caller's transaction, which holds no lock on a job yet.
///
/// Waits for the lock on the job. Call [`crate::connection::notify::dispatches_waiting`] after the
/// commit.
pub async fn trigger(
    conn: &mut Conn,
    tenant: TenantId,
    order: &Order<'_>,
    demands: Demands<'_>,
) -> DbResult<Fate> {
    let Some(job) = wait_for_job(conn, tenant, order).await? else { return Ok(Fate::NoSuchJob) };
    let names = Names { ids: vec![Some(job.0)], names: vec![None] };
    let found = names.find(conn, tenant, true).await?;
    let batch = Batch { tenant, orders: std::slice::from_ref(order), demands };
    let fate = batch.decide_and_write(conn, found).await?.pop().flatten();
    fate.ok_or_else(|| corrupt("the job of a single trigger was not locked".to_owned()))
}

/// A trigger to write, or its rejection; `Err(None)` if its job is not locked.
type Decision = Result<Locked, Option<Fate>>;

struct Batch<'a> {
    tenant: TenantId,
    orders: &'a [Order<'a>],
    demands: Demands<'a>,
}

impl<'a> Batch<'a> {
    /// The outcomes; `None` for a trigger whose job is not locked.
    async fn decide_and_write(&self, conn: &Conn, found: Vec<Found>) -> DbResult<Vec<Option<Fate>>> {
        if found.len() != self.orders.len() {
            return Err(corrupt(format!("{} triggers have {} outcomes", self.orders.len(), found.len())));
        }
        let Some(now) = found.iter().map(|found| found.now).max() else { return Ok(Vec::new()) };
        let quota = found.iter().find_map(|found| found.quota);
        let mut decided = Vec::with_capacity(found.len());
        for (found, order) in found.into_iter().zip(self.orders) {
            decided.push(self.decide(conn, found, order).await?);
        }

        let wanted = i64::try_from(decided.iter().filter(|one| one.is_ok()).count()).unwrap_or(i64::MAX);
        let taken = match quota {
            Some(limit) if wanted > 0 => {
                let request = QuotaRequest { tenant: self.tenant, limit, wanted, now };
                quotas::take_dispatches(conn, request).await?
            }
            Some(_) | None => QuotaGrant { granted: wanted, used_up: None },
        };
        let (fates, new) = self.share_out(decided, taken, now);
        self.write(conn, &fates, new).await?;
        Ok(fates)
    }

    /// Checks everything that may reject a trigger except the quota and the version.
    async fn decide(&self, conn: &Conn, found: Found, order: &Order<'_>) -> DbResult<Decision> {
        if found.job.is_none() {
            return Ok(Err(Some(Fate::NoSuchJob)));
        }
        let Some(job) = found.locked() else { return Ok(Err(None)) };
        if job.is_built_in && !order.may_run_built_in {
            return Ok(Err(Some(Fate::BuiltIn)));
        }
        let args = order.args.or(job.args.as_ref());
        if let Some(key) = self.demands.idempotency_key
            && let Some((earlier, its_args)) = earlier_with(conn, self.tenant, job.id, key).await?
        {
            let is_same = args == Some(&its_args);
            return Ok(Err(Some(if is_same { Fate::Duplicate(earlier) } else { Fate::KeyReused(earlier) })));
        }
        if !job.is_active {
            return Ok(Err(Some(Fate::FunctionInactive(job.function))));
        }
        let misfits = args.map(|args| args_schema::misfits(job.args_schema.as_ref(), args));
        match misfits {
            Some(misfits) if !misfits.is_empty() => Ok(Err(Some(Fate::ArgsRefused(misfits)))),
            Some(_) | None => Ok(Ok(job)),
        }
    }

    /// Gives the granted runs to the first triggers. Of one job, the first ones take its room and
    /// the remaining runs are queued.
    fn share_out(
        &self,
        decided: Vec<Decision>,
        taken: QuotaGrant,
        now: DateTime<Utc>,
    ) -> (Vec<Option<Fate>>, Vec<(Trigger, NewDispatch<'a>)>) {
        let (mut new, mut left, mut rooms) = (Vec::new(), taken.granted, Rooms::default());
        let mut fate = |job: Locked, order: &Order<'a>| {
            if let Some(used_up) = taken.used_up.filter(|_| left <= 0) {
                return Fate::QuotaUsedUp(used_up);
            }
            left -= 1;
            if self.demands.version.is_some_and(|version| version != job.version) {
                return Fate::OtherVersion(job.version);
            }
            let id = DispatchId(time_ordered(now));
            let is_queued = rooms.is_full_for((self.tenant, job.id), &job.instances);
            let own = order.args.filter(|own| Some(*own) != job.args.as_ref());
            let run = NewDispatch {
                id,
                tenant_id: self.tenant,
                job_id: job.id,
                scheduled_for: now,
                available_at: now,
                is_queued,
                expires_at: job.start_within_seconds.map(|span| now + TimeDelta::seconds(span.into())),
                queue: job.queue.clone(),
                priority: job.priority,
                job_version: job.version,
                args: own.map(Cow::Borrowed).or_else(|| job.unstored_args.map(Cow::Owned)),
                is_catch_up: false,
                follows: None,
                origin: Origin {
                    user: Some(order.user),
                    trigger_id: Some(id.0),
                    idempotency_key: self.demands.idempotency_key,
                    traceparent: order.traceparent,
                    ..Origin::default()
                },
            };
            new.push((order.triggered_by, run));
            Fate::Created(Created { job: job.id, dispatch: id, queue: job.queue, is_queued })
        };
        let fates = decided
            .into_iter()
            .zip(self.orders)
            .map(|(decided, order)| decided.map_or_else(|rejected| rejected, |job| Some(fate(job, order))))
            .collect();
        (fates, new)
    }

    /// Sends both independent statements before the first response arrives.
    async fn write(
        &self,
        conn: &Conn,
        fates: &[Option<Fate>],
        new: Vec<(Trigger, NewDispatch<'_>)>,
    ) -> DbResult<()> {
        let wanted = new.len();
        if wanted == 0 {
            return Ok(());
        }
        let created = fates.iter().zip(self.orders).filter_map(|(fate, order)| match fate {
            Some(Fate::Created(created)) => Some(self.entry(created, order)),
            _ => None,
        });
        let entries: Vec<AuditEntry> = created.collect();
        let (inserted, noted) =
            futures_util::join!(insert::insert_by_source(conn, new), audit::insert(conn, &entries));
        let inserted = inserted?;
        noted?;
        if inserted == wanted {
            return Ok(());
        }
        Err(corrupt(format!("{inserted} of {wanted} runs were inserted, although their jobs are locked")))
    }

    fn entry(&self, Created { job, dispatch, .. }: &Created, order: &Order<'_>) -> AuditEntry {
        AuditEntry {
            tenant_id: Some(self.tenant),
            actor: order.actor.to_owned(),
            action: "trigger_job",
            target_type: "job",
            target_id: job.to_string(),
            before: None,
            after: Some(json!({"dispatch_id": dispatch, "has_own_args": order.args.is_some()})),
            request_id: Some(order.request.to_owned()),
            address: order.address.map(str::to_owned),
        }
    }
}

/// The run that this key created for the job, and its arguments.
async fn earlier_with(
    conn: &Conn,
    tenant: TenantId,
    job: JobId,
    key: &str,
) -> DbResult<Option<(DispatchId, Value)>> {
    let earlier = job_dispatch::table
        .filter(job_dispatch::tenant_id.eq(tenant))
        .filter(job_dispatch::job_id.eq(job))
        .filter(job_dispatch::idempotency_key.eq(key))
        .select((job_dispatch::id, RunArguments))
        .get_result(&mut { conn })
        .await
        .optional()?;
    Ok(earlier)
}

fn corrupt(reason: String) -> DbError {
    DbError::Corrupt { what: "triggers".to_owned(), reason }
}
