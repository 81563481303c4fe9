//! Triggers of several jobs of a tenant in one transaction, for who gathers what many ask for at the same moment.
//!
//! What [`dispatches::trigger`](super::dispatches::trigger) does for one trigger, by the same rules and under the same locks, in as many
//! statements for a hundred of them as for one. Each has a fate of its own: what one is refused for stops no other. Nobody waits for a job that
//! somebody else holds, a tick or the end of an attempt: its triggers are left alone ([`Fate::Busy`]) and have to wait by themselves. So are
//! those whose arguments are to be held against a schema, which the database cannot do. Triggers with an `Idempotency-Key` are not taken.
//!
//! Most go as one statement ([`at_once`]), because each message between two processes costs more than a trigger does. Those of a tenant with a quota
//! of dispatches go in a transaction of the caller's ([`trigger_all`]). In either all of it is one transaction: who dies before the commit has
//! made nothing.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::sql_types::{
    Array, BigInt, Bool, Int4, Jsonb, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::dispatches::STANDARD_PRIORITY;
use super::quotas::{self, DispatchesUsedUp};
use crate::{Conn, DbError, DbResult, connection::transaction};
use sched_domain::dispatch::Trigger;
use sched_domain::ids::{DispatchId, JobId, TenantId, time_ordered};

/// One of several triggers.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The job, by its id or its name. A name can look like an id; then the id counts.
    pub job: &'a str,
    /// Whether who asks may have built-in functions run.
    pub may_run_built_in: bool,
    /// Who asks for it.
    pub user: &'a str,
    /// Arguments instead of the job's own; an object.
    pub args: Option<&'a serde_json::Value>,
    /// W3C trace context.
    pub traceparent: &'a str,
    /// Who asks, as the audit log says it.
    pub actor: &'a str,
    /// The id of the request, for the audit log.
    pub request: &'a str,
    /// The network address of who sent it, for the audit log.
    pub address: Option<&'a str>,
}

/// A dispatch that a trigger made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Of this job.
    pub job: JobId,
    /// The dispatch.
    pub dispatch: DispatchId,
    /// It waits here.
    pub queue: String,
}

/// What became of one of several triggers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It made a dispatch.
    Created(Created),
    /// There is no such job.
    NoSuchJob,
    /// The function of the job is built in, and who asks may not have it run.
    BuiltIn,
    /// This function, of the job, is inactive.
    FunctionInactive(String),
    /// The tenant has made as many dispatches in this minute as it may.
    QuotaUsedUp(DispatchesUsedUp),
    /// Nothing was done: somebody else holds the job, and a trigger for it alone has to wait for them; or its function has a schema of arguments,
    /// which is not looked at here.
    Busy,
}

statement! {
    /// Raw because it calls a function that does everything at once.
    AtOnce<'a> = "trigger/triggers_at_once.sql", (
        tenant: TenantId as SqlUuid,
        standard_priority: i16 as SmallInt,
        triggered_by: Trigger as Text,
        ids: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
        names: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        may_run_built_in: &'a [bool] as Array<Bool>,
        users: &'a [&'a str] as Array<Text>,
        args: &'a [Option<&'a serde_json::Value>] as Array<Nullable<Jsonb>>,
        traceparents: &'a [&'a str] as Array<Text>,
        actors: &'a [&'a str] as Array<Text>,
        requests: &'a [&'a str] as Array<Text>,
        addresses: &'a [Option<&'a str>] as Array<Nullable<Text>>,
    ) -> (Text, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<Text>, Nullable<Text>)
}

/// The fate, the job, the dispatch, its queue, and the name of the function of the job.
type Done = (String, Option<JobId>, Option<DispatchId>, Option<String>, Option<String>);

/// Creates a dispatch for each job that is asked for, with its entry in the audit log, in a transaction of its own.
///
/// In it the connection is what the API is ([`crate::connection::row_security::API_ROLE`]). Says what became of each order, in their order; `None` where the
/// tenant has a quota of dispatches, and nothing was done. Tell the workers after it.
///
/// # Errors
/// When the database refuses one of them, so that none was done; or cannot be asked, so that nobody knows ([`DbError::is_outage`]).
pub async fn at_once(
    conn: &mut Conn,
    tenant: TenantId,
    triggered_by: Trigger,
    orders: &[Order<'_>],
) -> DbResult<Option<Vec<Fate>>> {
    fn column<'a, T>(orders: &[Order<'a>], value: impl Fn(&Order<'a>) -> T) -> Vec<T> {
        orders.iter().map(value).collect()
    }
    let (ids, names) = (asked_ids(orders), asked_names(orders));
    let statement = AtOnce {
        tenant,
        standard_priority: STANDARD_PRIORITY,
        triggered_by,
        ids: &ids,
        names: &names,
        may_run_built_in: &column(orders, |order| order.may_run_built_in),
        users: &column(orders, |order| order.user),
        args: &column(orders, |order| order.args),
        traceparents: &column(orders, |order| order.traceparent),
        actors: &column(orders, |order| order.actor),
        requests: &column(orders, |order| order.request),
        addresses: &column(orders, |order| order.address),
    };
    let done: Vec<Done> = match statement.load(conn).await.map_err(DbError::from) {
        Ok(done) => done,
        Err(error) => {
            transaction::leave_lost(conn, &error);
            return Err(error);
        }
    };
    if matches!(&done[..], [(fate, ..)] if fate == "quota") {
        return Ok(None);
    }
    if done.len() != orders.len() {
        return Err(corrupt(format!("{} orders have {} fates", orders.len(), done.len())));
    }
    done.into_iter().map(fate).collect::<DbResult<Vec<Fate>>>().map(Some)
}

fn fate((fate, job, dispatch, queue, function): Done) -> DbResult<Fate> {
    match (fate.as_str(), job, dispatch, queue, function) {
        ("created", Some(job), Some(dispatch), Some(queue), _) => {
            Ok(Fate::Created(Created { job, dispatch, queue }))
        }
        ("no_such_job", ..) => Ok(Fate::NoSuchJob),
        ("busy", ..) => Ok(Fate::Busy),
        ("built_in", ..) => Ok(Fate::BuiltIn),
        ("inactive", _, _, _, Some(function)) => Ok(Fate::FunctionInactive(function)),
        (other, ..) => Err(corrupt(format!("one has the fate {other:?}"))),
    }
}

fn corrupt(reason: String) -> DbError {
    DbError::Corrupt { what: "triggers".to_owned(), reason }
}

fn asked_ids(orders: &[Order<'_>]) -> Vec<Option<Uuid>> {
    orders.iter().map(|order| order.job.parse().ok()).collect()
}

/// No name holds a NUL, and the database takes none.
fn asked_names<'a>(orders: &[Order<'a>]) -> Vec<Option<&'a str>> {
    orders.iter().map(|order| Some(order.job).filter(|name| !name.contains('\0'))).collect()
}

/// Creates a dispatch for each job that is asked for, and says what became of each order, in their order. Call it in a transaction, and tell
/// the workers after it ([`crate::connection::notify::dispatches_waiting`]).
///
/// # Errors
/// When the database cannot be asked, or a row is not what it was found to be; nothing may be committed then.
pub async fn trigger_all(
    conn: &mut Conn,
    tenant: TenantId,
    triggered_by: Trigger,
    orders: &[Order<'_>],
) -> DbResult<Vec<Fate>> {
    let (ids, names) = (asked_ids(orders), asked_names(orders));
    let lock = Lock { tenant, standard_priority: STANDARD_PRIORITY, ids: &ids, names: &names };
    let found: Vec<Found> = lock.load(conn).await?;
    let Some(now) = found.iter().map(|found| found.9).max() else { return Ok(Vec::new()) };
    let quota = found.iter().find_map(|found| found.8);
    let judged: Vec<Result<Due, Fate>> =
        found.into_iter().zip(orders).map(|(found, order)| judge(found, order)).collect();

    let wanted = i64::try_from(judged.iter().filter(|one| one.is_ok()).count()).unwrap_or(i64::MAX);
    let (granted, used_up) = match quota {
        Some(limit) if wanted > 0 => {
            let taken = quotas::take_dispatches(conn, tenant, limit, now, wanted).await?;
            (taken.granted, Some(taken.used_up))
        }
        Some(_) | None => (wanted, None),
    };
    let (fates, writes) = shared_out(judged, orders, granted, used_up, now);
    write(conn, tenant, triggered_by, now, &writes).await?;
    Ok(fates)
}

/// Job, name of its function, whether that is built in, whether it is active, queue, priority, how many more may be open before others wait
/// in line, within how many seconds it must start, how many dispatches the tenant may make in a minute, and what time it is. All but the
/// first and the last two are missing of a job that somebody else holds.
type Found = (
    Option<JobId>,
    Option<String>,
    Option<bool>,
    Option<bool>,
    Option<String>,
    i16,
    Option<i32>,
    Option<i32>,
    Option<i64>,
    DateTime<Utc>,
);

statement! {
    /// Raw because it locks what it finds and leaves out what others hold.
    Lock<'a> = "trigger/triggers_lock.sql", (
        tenant: TenantId as SqlUuid,
        standard_priority: i16 as SmallInt,
        ids: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
        names: &'a [Option<&'a str>] as Array<Nullable<Text>>,
    ) -> (
        Nullable<SqlUuid>, Nullable<Text>, Nullable<Bool>, Nullable<Bool>, Nullable<Text>, SmallInt, Nullable<Int4>, Nullable<Int4>,
        Nullable<BigInt>, Timestamptz,
    )
}

/// A trigger that nothing but a quota stands against.
struct Due {
    job: JobId,
    queue: String,
    priority: i16,
    room: Option<i32>,
    start_within: Option<i32>,
}

fn judge(found: Found, order: &Order<'_>) -> Result<Due, Fate> {
    let (job, function, is_built_in, is_active, queue, priority, room, start_within, ..) = found;
    let Some(job) = job else { return Err(Fate::NoSuchJob) };
    let (Some(function), Some(is_built_in), Some(is_active), Some(queue)) =
        (function, is_built_in, is_active, queue)
    else {
        return Err(Fate::Busy);
    };
    if is_built_in && !order.may_run_built_in {
        return Err(Fate::BuiltIn);
    }
    if !is_active {
        return Err(Fate::FunctionInactive(function));
    }
    Ok(Due { job, queue, priority, room, start_within })
}

/// What is written, column by column.
#[derive(Default)]
struct Writes<'a> {
    ids: Vec<DispatchId>,
    jobs: Vec<JobId>,
    in_line: Vec<bool>,
    queues: Vec<String>,
    priorities: Vec<i16>,
    users: Vec<&'a str>,
    args: Vec<Option<&'a serde_json::Value>>,
    traceparents: Vec<&'a str>,
    start_within: Vec<Option<i32>>,
}

/// Gives dispatches to as many as there are, first come, first served. Those of one job count among each other: the first take what room
/// it has, the others wait in line.
fn shared_out<'a>(
    judged: Vec<Result<Due, Fate>>,
    orders: &[Order<'a>],
    granted: i64,
    used_up: Option<DispatchesUsedUp>,
    now: DateTime<Utc>,
) -> (Vec<Fate>, Writes<'a>) {
    let (mut writes, mut left) = (Writes::default(), granted);
    let mut rooms: HashMap<JobId, Option<i32>> = HashMap::new();
    let mut fate = |due: Due, order: &Order<'a>| {
        if let Some(used_up) = used_up.filter(|_| left <= 0) {
            return Fate::QuotaUsedUp(used_up);
        }
        left -= 1;
        let room = rooms.entry(due.job).or_insert(due.room);
        let is_in_line = room.is_some_and(|room| room <= 0);
        if !is_in_line {
            *room = room.map(|room| room - 1);
        }
        let dispatch = DispatchId(time_ordered(now));
        writes.ids.push(dispatch);
        writes.jobs.push(due.job);
        writes.in_line.push(is_in_line);
        writes.queues.push(due.queue.clone());
        writes.priorities.push(due.priority);
        writes.users.push(order.user);
        writes.args.push(order.args);
        writes.traceparents.push(order.traceparent);
        writes.start_within.push(due.start_within);
        Fate::Created(Created { job: due.job, dispatch, queue: due.queue })
    };
    let fates = judged
        .into_iter()
        .zip(orders)
        .map(|(judged, order)| judged.map_or_else(|refused| refused, |due| fate(due, order)))
        .collect();
    (fates, writes)
}

statement! {
    /// Raw because it writes the jobs and their dispatches at once.
    Write<'a> = "trigger/triggers_write.sql", (
        tenant: TenantId as SqlUuid,
        at: DateTime<Utc> as Timestamptz,
        triggered_by: Trigger as Text,
        ids: &'a [DispatchId] as Array<SqlUuid>,
        jobs: &'a [JobId] as Array<SqlUuid>,
        in_line: &'a [bool] as Array<Bool>,
        queues: &'a [String] as Array<Text>,
        priorities: &'a [i16] as Array<SmallInt>,
        users: &'a [&'a str] as Array<Text>,
        args: &'a [Option<&'a serde_json::Value>] as Array<Nullable<Jsonb>>,
        traceparents: &'a [&'a str] as Array<Text>,
        start_within: &'a [Option<i32>] as Array<Nullable<Int4>>,
    ) -> ()
}

async fn write(
    conn: &mut Conn,
    tenant: TenantId,
    triggered_by: Trigger,
    at: DateTime<Utc>,
    writes: &Writes<'_>,
) -> DbResult<()> {
    if writes.ids.is_empty() {
        return Ok(());
    }
    let write = Write {
        tenant,
        at,
        triggered_by,
        ids: &writes.ids,
        jobs: &writes.jobs,
        in_line: &writes.in_line,
        queues: &writes.queues,
        priorities: &writes.priorities,
        users: &writes.users,
        args: &writes.args,
        traceparents: &writes.traceparents,
        start_within: &writes.start_within,
    };
    let written = write.execute(conn).await?;
    if written == writes.ids.len() {
        return Ok(());
    }
    Err(DbError::Corrupt {
        what: "the jobs of triggers".to_owned(),
        reason: format!(
            "{written} of {} dispatches were written, although their jobs are held",
            writes.ids.len()
        ),
    })
}
