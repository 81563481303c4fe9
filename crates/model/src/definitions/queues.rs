//! Queues: their settings, and the usage of their limits.
//!
//! Claims read the current settings ([`crate::running::claims`]): a change applies from the next
//! claim on, and running work continues. A queue can be deleted when no job or function names it
//! and no run waits in it.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Int2, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::resources::{ChangeError, Expected, MOST_NAMED, Users};
use super::saved::Change;
use crate::identity::tenants::DEFAULT_QUEUE;
use crate::schema::{queues, scheduled_jobs, task_functions};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::built_in;
use sched_domain::ids::{DEFAULT_TENANT, TenantId};

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = queues, check_for_backend(diesel::pg::Pg), treat_none_as_null = true)]
pub struct QueueSettings {
    pub name: String,
    pub description: String,
    pub is_paused: bool,
    pub pause_reason: Option<String>,
    /// Maximum number of its running runs, at least 1.
    pub max_running: Option<i32>,
    /// Maximum number of claims in any stretch of time as long as the period; set together with it.
    pub rate_limit_count: Option<i32>,
    /// The period, in seconds.
    pub rate_limit_period_seconds: Option<i32>,
    /// Priority of runs whose job has none, 0 to 100.
    pub default_priority: i16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub settings: QueueSettings,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// Number of its running runs.
    pub running: i64,
    /// Number of claims in the last period; `None` without a limit.
    pub claimed_in_period: Option<i64>,
    pub depth: Depth,
    /// Live workers, without draining ones.
    pub workers: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Number of waiting runs, queued ones included.
    pub waiting: i64,
    /// The count stopped at its bound.
    pub is_at_least: bool,
    pub oldest_claimable_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// As in the settings.
    AsSaid,
    /// As in the existing queue.
    AsItIs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedQueue {
    pub after: QueueSettings,
    pub before: Option<QueueSettings>,
    /// `None` for a new queue.
    pub changed_before: Option<DateTime<Utc>>,
    pub change: Change,
}

type Row = (
    (String, String, bool, Option<String>, Option<i32>, Option<i32>, Option<i32>, i16),
    (DateTime<Utc>, DateTime<Utc>, i64, Option<i64>),
    (i64, bool, Option<DateTime<Utc>>),
    i64,
);

statement! {
    List<'a> = "queues/queues_list.sql", (
        tenant: TenantId as SqlUuid,
        after: &'a str as Text,
        only: Option<&'a str> as Nullable<Text>,
        prefix: Option<&'a str> as Nullable<Text>,
        paused: Option<bool> as Nullable<Bool>,
        limit: i64 as BigInt,
    ) -> (
        (Text, Text, Bool, Nullable<Text>, Nullable<Int4>, Nullable<Int4>, Nullable<Int4>, Int2),
        (Timestamptz, Timestamptz, BigInt, Nullable<BigInt>),
        (BigInt, Bool, Nullable<Timestamptz>),
        BigInt,
    )
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    pub name_prefix: Option<&'a str>,
    pub paused: Option<bool>,
    pub after: Option<&'a str>,
}

/// Queues of the tenant that match a filter, at most `limit`, by name.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    filter: &Filter<'_>,
    limit: i64,
) -> DbResult<Vec<Queue>> {
    let Filter { name_prefix: prefix, paused, after } = *filter;
    let after = after.unwrap_or_default();
    let rows: Vec<Row> = List { tenant, after, only: None, prefix, paused, limit }.load(conn).await?;
    Ok(rows.into_iter().map(queue).collect())
}

fn queue((settings, (created_at, updated_at, running, claimed_in_period), depth, workers): Row) -> Queue {
    let (waiting, is_at_least, oldest_claimable_at) = depth;
    let (name, description, is_paused, pause_reason, max_running, count, period, default_priority) = settings;
    Queue {
        settings: QueueSettings {
            name,
            description,
            is_paused,
            pause_reason,
            max_running,
            rate_limit_count: count,
            rate_limit_period_seconds: period,
            default_priority,
        },
        created_at,
        updated_at,
        running,
        claimed_in_period,
        depth: Depth { waiting, is_at_least, oldest_claimable_at },
        workers,
    }
}

/// Settings of the tenant's queues, or of those with these names, at most `limit`, by name; without
/// counts.
pub async fn settings(
    conn: &mut Conn,
    tenant: TenantId,
    names: Option<&[String]>,
    limit: i64,
) -> DbResult<Vec<QueueSettings>> {
    use queues as q;
    let mut found = q::table.filter(q::tenant_id.eq(tenant)).select(QueueSettings::as_select()).into_boxed();
    if let Some(names) = names {
        found = found.filter(q::name.eq_any(names));
    }
    Ok(found.order(q::name).limit(limit).load(conn).await?)
}

pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Queue>> {
    let one = List { tenant, after: "", only: Some(name), prefix: None, paused: None, limit: 1 };
    let found: Option<Row> = one.get_result(conn).await.optional()?;
    Ok(found.map(queue))
}

/// Inserts or overwrites a queue. Call it in a transaction.
///
/// # Errors
/// A constraint error if a setting is out of bounds.
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &QueueSettings,
    pause: Pause,
) -> DbResult<SavedQueue> {
    use queues as q;
    if pause == Pause::AsItIs {
        // Unchanged settings need no lock, so the kill switch does not wait for this transaction.
        let found: Option<(QueueSettings, DateTime<Utc>)> = q::table
            .find((tenant, &settings.name))
            .select((QueueSettings::as_select(), q::updated_at))
            .get_result(conn)
            .await
            .optional()?;
        if let Some((stored, changed_before)) =
            found.filter(|(stored, _)| *stored == with_pause_of(stored, settings))
        {
            let (before, changed_before) = (Some(stored.clone()), Some(changed_before));
            return Ok(SavedQueue { after: stored, before, changed_before, change: Change::Unchanged });
        }
    }
    let created = diesel::insert_into(q::table)
        .values((q::tenant_id.eq(tenant), settings))
        .on_conflict_do_nothing()
        .execute(conn)
        .await?;
    if created > 0 {
        let after = settings.clone();
        return Ok(SavedQueue { after, before: None, changed_before: None, change: Change::Created });
    }
    let (before, changed_before): (QueueSettings, DateTime<Utc>) = q::table
        .find((tenant, &settings.name))
        .select((QueueSettings::as_select(), q::updated_at))
        .for_no_key_update()
        .get_result(conn)
        .await?;
    let after = match pause {
        Pause::AsSaid => settings.clone(),
        Pause::AsItIs => with_pause_of(&before, settings),
    };
    let change = if before == after { Change::Unchanged } else { Change::Updated };
    if change == Change::Updated {
        diesel::update(q::table.find((tenant, &settings.name)))
            .set((&after, q::updated_at.eq(database_clock::clock_timestamp())))
            .execute(conn)
            .await?;
    }
    Ok(SavedQueue { after, before: Some(before), changed_before: Some(changed_before), change })
}

fn with_pause_of(stored: &QueueSettings, settings: &QueueSettings) -> QueueSettings {
    let (is_paused, pause_reason) = (stored.is_paused, stored.pause_reason.clone());
    QueueSettings { is_paused, pause_reason, ..settings.clone() }
}

/// Deletes a queue, and returns it. Call it in a transaction.
///
/// Deleted jobs and functions no longer name it: after a restore they use the queue of their
/// function or the default queue.
///
/// # Errors
/// [`ChangeError::InUse`] while a job, function or waiting run needs it, [`ChangeError::BuiltIn`]
/// for queues that every tenant has.
pub async fn delete(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
    expected: Expected,
) -> Result<QueueSettings, ChangeError> {
    use queues as q;
    let found: Option<(QueueSettings, DateTime<Utc>)> = q::table
        .find((tenant, name))
        .select((QueueSettings::as_select(), q::updated_at))
        .for_update()
        .get_result(conn)
        .await
        .optional()?;
    let (before, updated_at) = found.ok_or(ChangeError::NotFound)?;
    expected.of_present(updated_at)?;
    if name == DEFAULT_QUEUE || (tenant == DEFAULT_TENANT && name == built_in::QUEUE) {
        return Err(ChangeError::BuiltIn);
    }
    if let Some(users) = users(conn, tenant, name).await? {
        return Err(ChangeError::InUse(users));
    }
    let jobs = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::queue.eq(name))
        .filter(scheduled_jobs::deleted_at.is_not_null());
    diesel::update(jobs).set(scheduled_jobs::queue.eq(None::<String>)).execute(conn).await?;
    let functions = task_functions::table
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::queue.eq(name))
        .filter(task_functions::deleted_at.is_not_null());
    diesel::update(functions).set(task_functions::queue.eq(DEFAULT_QUEUE)).execute(conn).await?;
    let deleted = diesel::delete(q::table.find((tenant, name))).execute(conn).await;
    deleted.map_err(|error| match DbError::from(error) {
        // A deleted job was restored after the check: this transaction runs again and sees it.
        DbError::Constraint { name, source, .. } if name == "scheduled_jobs_queue_fkey" => {
            DbError::Collision(source)
        }
        error => error,
    })?;
    Ok(before)
}

async fn users(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Users>> {
    let functions = task_functions::table
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::queue.eq(name))
        .filter(task_functions::deleted_at.is_null())
        .order(task_functions::name)
        .limit(MOST_NAMED + 1)
        .select(task_functions::name)
        .load(conn)
        .await?;
    if let Some(users) = Users::of("task functions", functions) {
        return Ok(Some(users));
    }
    let jobs = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::queue.eq(name))
        .filter(scheduled_jobs::deleted_at.is_null())
        .order(scheduled_jobs::name)
        .limit(MOST_NAMED + 1)
        .select(scheduled_jobs::name)
        .load(conn)
        .await?;
    if let Some(users) = Users::of("jobs", jobs) {
        return Ok(Some(users));
    }
    let waiting: Vec<uuid::Uuid> =
        WaitingIn { tenant, queue: name, limit: MOST_NAMED + 1 }.load(conn).await?;
    Ok(Users::of("waiting dispatches", waiting.iter().map(uuid::Uuid::to_string).collect()))
}

statement! {
    WaitingIn<'a> = "queues/queues_waiting_in.sql", (
        tenant: TenantId as SqlUuid,
        queue: &'a str as Text,
        limit: i64 as BigInt,
    ) -> SqlUuid
}
