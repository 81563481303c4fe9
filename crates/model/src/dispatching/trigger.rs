//! Triggers: runs of a job outside its schedule, singly or as a batch of a tenant.
//!
//! 1. The jobs are found and locked, in the order of their ids.
//! 2. Each trigger gets its own outcome ([`Fate`]). A rejected trigger stops no other.
//! 3. The runs, the counters of their jobs and an audit event for each run are written.
//!
//! # A batch ([`trigger_batch`])
//! It is its own transaction of three round trips for any size: begin and locks, runs and audit
//! events, commit. A quota adds two. A batch never waits for a job that another transaction has
//! locked. Its triggers of that job are not done ([`Fate::Busy`]); the caller repeats each of them
//! alone. The same holds for a job whose arguments have a schema, so that a batch stays cheap.
//!
//! # A single trigger ([`trigger`])
//! It runs in the caller's transaction and waits for the lock on its job, which orders it with
//! ticks, completions and other triggers of the job. Only a single trigger has an idempotency key
//! or a required version.
//!
//! # Locks
//! `scheduled_jobs` in the order of their ids, then `tenant_usage` if the tenant has a quota of
//! runs, then `job_dispatch`. See [`super::insert`].
//!
//! # Crashes
//! Each function writes in one transaction. A process that dies before the commit has created
//! nothing.

mod lock;

use std::borrow::Cow;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde_json::{Value, json};

use self::lock::{Found, Locked, Names, wait_for_job};
use super::insert::{self, NewDispatch, Origin};
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
    pub may_run_built_in: bool,
    /// Stored in the run.
    pub user: &'a str,
    /// Instead of the job's; an object.
    pub args: Option<&'a Value>,
    /// W3C trace context.
    pub traceparent: Option<&'a str>,
    /// The user, for the audit log.
    pub actor: &'a str,
    /// For the audit log.
    pub request: &'a str,
    /// Of the client, for the audit log.
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
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Created(Created),
    /// The earlier run of the key.
    Duplicate(DispatchId),
    /// The earlier run of the key, with other arguments.
    KeyReused(DispatchId),
    NoSuchJob,
    /// The user may not run built-in functions.
    BuiltIn,
    /// The inactive function.
    FunctionInactive(String),
    ArgsRefused(Vec<Misfit>),
    QuotaUsedUp(DispatchesUsedUp),
    /// The job has this version. Known only after the writes, so the caller rolls its transaction
    /// back.
    OtherVersion(i64),
    /// Only in a batch: another transaction has locked the job, or its arguments have a schema.
    Busy,
}

/// Triggers jobs in a separate transaction, as the API's role in that tenant
/// ([`crate::connection::row_security::API_ROLE`]). Returns the outcomes in the order of the
/// triggers.
///
/// Call [`crate::connection::notify::dispatches_waiting`] afterwards.
///
/// # Errors
/// Nothing was written; after an outage ([`DbError::is_outage`]) the result is unknown.
pub async fn trigger_batch(conn: &mut Conn, tenant: TenantId, orders: &[Order<'_>]) -> DbResult<Vec<Fate>> {
    if orders.is_empty() {
        return Ok(Vec::new());
    }
    // The statements take lists of keys: their plans do not depend on the parameters.
    let scope = Scope::tenant(tenant).with_general_plans();
    let names = Names::of(orders);
    let pipelined = Pipelined::new(conn);
    let work = async {
        let found = pipelined.begin(scope, names.find(pipelined.conn(), tenant, false)).await?;
        let batch = Batch { tenant, orders, demands: Demands::default() };
        batch.decide_and_write(pipelined.conn(), found).await
    };
    let done = work.await;
    pipelined.end(done).await
}

/// Triggers one job, in the caller's transaction, which holds no lock on a job yet.
///
/// Waits for the lock on the job, so it never returns [`Fate::Busy`]. Call
/// [`crate::connection::notify::dispatches_waiting`] after the commit.
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
    match batch.decide_and_write(conn, found).await?.pop() {
        Some(Fate::Busy) | None => Err(corrupt("the job of a single trigger was not locked".to_owned())),
        Some(fate) => Ok(fate),
    }
}

struct Batch<'a> {
    tenant: TenantId,
    orders: &'a [Order<'a>],
    demands: Demands<'a>,
}

impl<'a> Batch<'a> {
    async fn decide_and_write(&self, conn: &Conn, found: Vec<Found>) -> DbResult<Vec<Fate>> {
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
        self.write(conn, &fates, &new).await?;
        Ok(fates)
    }

    /// Everything that may reject a trigger except the quota and the version.
    async fn decide(&self, conn: &Conn, found: Found, order: &Order<'_>) -> DbResult<Result<Locked, Fate>> {
        let job = match found.locked() {
            Ok(job) => job,
            Err(fate) => return Ok(Err(fate)),
        };
        if job.is_built_in && !order.may_run_built_in {
            return Ok(Err(Fate::BuiltIn));
        }
        let args = order.args.or(job.args.as_ref());
        if let Some(key) = self.demands.idempotency_key
            && let Some((earlier, its_args)) = earlier_with(conn, self.tenant, job.id, key).await?
        {
            let is_same = args == Some(&its_args);
            return Ok(Err(if is_same { Fate::Duplicate(earlier) } else { Fate::KeyReused(earlier) }));
        }
        if !job.is_active {
            return Ok(Err(Fate::FunctionInactive(job.function)));
        }
        let misfits = args.map(|args| args_schema::misfits(job.args_schema.as_ref(), args));
        match misfits {
            Some(misfits) if !misfits.is_empty() => Ok(Err(Fate::ArgsRefused(misfits))),
            Some(_) | None => Ok(Ok(job)),
        }
    }

    /// The first triggers get the granted runs. Of one job, the first ones take its room and the
    /// rest are queued.
    fn share_out(
        &self,
        decided: Vec<Result<Locked, Fate>>,
        taken: QuotaGrant,
        now: DateTime<Utc>,
    ) -> (Vec<Fate>, Vec<NewDispatch<'a>>) {
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
            new.push(NewDispatch {
                id,
                tenant_id: self.tenant,
                job_id: job.id,
                scheduled_for: now,
                available_at: now,
                is_queued: rooms.is_full_for((self.tenant, job.id), &job.instances),
                expires_at: job.start_within_seconds.map(|span| now + TimeDelta::seconds(span.into())),
                queue: job.queue.clone(),
                priority: job.priority,
                args: order.args.map(Cow::Borrowed),
                is_catch_up: false,
                follows: None,
                origin: Origin {
                    user: Some(order.user),
                    trigger_id: Some(id.0),
                    idempotency_key: self.demands.idempotency_key,
                    traceparent: order.traceparent,
                    ..Origin::default()
                },
            });
            Fate::Created(Created { job: job.id, dispatch: id, queue: job.queue })
        };
        let fates = decided
            .into_iter()
            .zip(self.orders)
            .map(|(decided, order)| decided.map_or_else(|rejected| rejected, |job| fate(job, order)))
            .collect();
        (fates, new)
    }

    /// Sends both independent statements before the first response arrives.
    async fn write(&self, conn: &Conn, fates: &[Fate], new: &[NewDispatch<'_>]) -> DbResult<()> {
        if new.is_empty() {
            return Ok(());
        }
        let created = fates.iter().zip(self.orders).filter_map(|(fate, order)| match fate {
            Fate::Created(created) => Some(self.entry(created, order)),
            _ => None,
        });
        let entries: Vec<AuditEntry> = created.collect();
        let (inserted, noted) =
            futures_util::join!(insert::insert(conn, None, Trigger::Api, new), audit::insert(conn, &entries));
        let inserted = inserted?;
        noted?;
        if inserted.len() == new.len() {
            return Ok(());
        }
        Err(corrupt(format!(
            "{} of {} runs were inserted, although their jobs are locked",
            inserted.len(),
            new.len()
        )))
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
        .select((job_dispatch::id, job_dispatch::args))
        .get_result(&mut { conn })
        .await
        .optional()?;
    Ok(earlier)
}

fn corrupt(reason: String) -> DbError {
    DbError::Corrupt { what: "triggers".to_owned(), reason }
}
