//! Task functions: what jobs run. Activation and deletion are in `lifecycle`.

mod check;
mod lifecycle;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};

use super::stored_json::stored_policy;
use crate::connection::like::literally;
use crate::schema::task_functions;
use crate::{Conn, DbError, DbResult, PageRequest, connection::database_clock};
use sched_domain::function::HandlerType;
use sched_domain::ids::{DispatchId, FunctionId, JobId, TenantId};
use sched_domain::retry::RetryPolicy;

pub use super::saved::Change;

pub use self::lifecycle::{Activation, delete, expect, set_active};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionSettings {
    pub name: String,
    pub display_name: String,
    pub description: String,
    pub handler_type: HandlerType,
    pub handler_config: serde_json::Value,
    pub queue: String,
    /// Time-out of an attempt, in seconds.
    pub default_timeout_seconds: i32,
    /// `None` for the installation's default.
    pub retry_policy: Option<RetryPolicy>,
    /// JSON Schema for the arguments of its jobs; `None` accepts all
    /// ([`sched_domain::args_schema`]).
    pub args_schema: Option<serde_json::Value>,
}

#[derive(Debug, Clone)]
pub struct Function {
    pub id: FunctionId,
    pub settings: FunctionSettings,
    /// An inactive function accepts no new jobs.
    pub is_active: bool,
    /// None of its runs is dispatched or claimed.
    pub is_paused: bool,
    pub pause_reason: Option<String>,
    /// Built in: cannot be changed.
    pub is_system: bool,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = task_functions, check_for_backend(diesel::pg::Pg))]
struct Row {
    id: FunctionId,
    name: String,
    display_name: String,
    description: String,
    handler_type: HandlerType,
    handler_config: serde_json::Value,
    queue: String,
    default_timeout_seconds: i32,
    retry_policy: Option<serde_json::Value>,
    args_schema: Option<serde_json::Value>,
    is_active: bool,
    is_paused: bool,
    pause_reason: Option<String>,
    is_system: bool,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl Row {
    fn into_function(self) -> Function {
        Function {
            id: self.id,
            is_active: self.is_active,
            is_paused: self.is_paused,
            pause_reason: self.pause_reason,
            is_system: self.is_system,
            created_at: self.created_at,
            updated_at: self.updated_at,
            settings: FunctionSettings {
                retry_policy: stored_policy(self.retry_policy, || {
                    format!("retry_policy of function {}", self.name)
                }),
                name: self.name,
                display_name: self.display_name,
                description: self.description,
                handler_type: self.handler_type,
                handler_config: self.handler_config,
                queue: self.queue,
                default_timeout_seconds: self.default_timeout_seconds,
                args_schema: self.args_schema,
            },
        }
    }
}

pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Function>> {
    let row: Option<Row> = task_functions::table
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::name.eq(name))
        .filter(task_functions::deleted_at.is_null())
        .select(Row::as_select())
        .get_result(conn)
        .await
        .optional()?;
    Ok(row.map(Row::into_function))
}

pub async fn by_names(conn: &mut Conn, tenant: TenantId, names: &[&str]) -> DbResult<Vec<Function>> {
    let rows: Vec<Row> = task_functions::table
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::name.eq_any(names))
        .filter(task_functions::deleted_at.is_null())
        .order(task_functions::name)
        .select(Row::as_select())
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(Row::into_function).collect())
}

/// The function with this name, locked against deletion until the end of the transaction.
pub(crate) async fn lock_for_use(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> DbResult<Option<Function>> {
    let row: Option<Row> = task_functions::table
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::name.eq(name))
        .filter(task_functions::deleted_at.is_null())
        .select(Row::as_select())
        .for_key_share()
        .get_result(conn)
        .await
        .optional()?;
    Ok(row.map(Row::into_function))
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub name_prefix: Option<String>,
    pub queue: Option<String>,
    pub handler_type: Option<HandlerType>,
    pub is_active: Option<bool>,
}

/// A page of the tenant's functions, by name, after the name `page.after`.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    filter: &Filter,
    page: PageRequest<Option<&str>>,
) -> DbResult<Vec<Function>> {
    let mut query = task_functions::table
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::deleted_at.is_null())
        .filter(task_functions::name.gt(page.after.unwrap_or_default()))
        .order(task_functions::name)
        .limit(page.limit)
        .select(Row::as_select())
        .into_boxed();
    if let Some(prefix) = &filter.name_prefix {
        query = query.filter(task_functions::name.like(format!("{}%", literally(prefix))));
    }
    if let Some(queue) = &filter.queue {
        query = query.filter(task_functions::queue.eq(queue));
    }
    if let Some(handler_type) = filter.handler_type {
        query = query.filter(task_functions::handler_type.eq(handler_type));
    }
    if let Some(is_active) = filter.is_active {
        query = query.filter(task_functions::is_active.eq(is_active));
    }
    let rows: Vec<Row> = query.load(conn).await?;
    Ok(rows.into_iter().map(Row::into_function).collect())
}

#[derive(Insertable, AsChangeset)]
#[diesel(table_name = task_functions, check_for_backend(diesel::pg::Pg), treat_none_as_null = true)]
struct Write<'a> {
    tenant_id: TenantId,
    name: &'a str,
    display_name: &'a str,
    description: &'a str,
    handler_type: HandlerType,
    handler_config: &'a serde_json::Value,
    queue: &'a str,
    default_timeout_seconds: i32,
    retry_policy: Option<serde_json::Value>,
    args_schema: Option<&'a serde_json::Value>,
}

impl<'a> Write<'a> {
    fn of(tenant_id: TenantId, settings: &'a FunctionSettings) -> Self {
        Self {
            tenant_id,
            name: &settings.name,
            display_name: &settings.display_name,
            description: &settings.description,
            handler_type: settings.handler_type,
            handler_config: &settings.handler_config,
            queue: &settings.queue,
            default_timeout_seconds: settings.default_timeout_seconds,
            retry_policy: settings.retry_policy.as_ref().and_then(|policy| serde_json::to_value(policy).ok()),
            args_schema: settings.args_schema.as_ref(),
        }
    }
}

/// Inserts or overwrites a function.
///
/// # Errors
/// A constraint error if the queue does not exist (`task_functions_queue_fkey`).
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &FunctionSettings,
) -> DbResult<(FunctionId, Change)> {
    use task_functions as f;
    let existing = lock_by_name(conn, tenant, &settings.name).await?;
    let write = Write::of(tenant, settings);
    let Some(existing) = existing else {
        let created = diesel::insert_into(f::table).values(&write).returning(f::id).get_result(conn).await;
        let id = created.map_err(|error| match DbError::from(error) {
            // Created after the lookup: this transaction runs again and finds it.
            DbError::Constraint { name, source, .. } if name == "task_functions_name_key" => {
                DbError::Collision(source)
            }
            error => error,
        })?;
        return Ok((id, Change::Created));
    };
    if existing.settings == *settings {
        return Ok((existing.id, Change::Unchanged));
    }
    diesel::update(f::table.find((tenant, existing.id)))
        .set((&write, f::updated_at.eq(database_clock::clock_timestamp())))
        .execute(conn)
        .await?;
    Ok((existing.id, Change::Updated))
}

/// Writes a built-in function under its name. Returns the function and whether it was written;
/// `None` if a user's function has the name.
pub(crate) async fn save_builtin(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &FunctionSettings,
) -> DbResult<Option<(FunctionId, bool)>> {
    use task_functions as f;
    if lock_by_name(conn, tenant, &settings.name).await?.is_some_and(|function| !function.is_system) {
        return Ok(None);
    }
    let (id, change) = save(conn, tenant, settings).await?;
    if change == Change::Created {
        diesel::update(f::table.find((tenant, id))).set(f::is_system.eq(true)).execute(conn).await?;
    }
    Ok(Some((id, change != Change::Unchanged)))
}

async fn lock_by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Function>> {
    let row: Option<Row> = task_functions::table
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::name.eq(name))
        .filter(task_functions::deleted_at.is_null())
        .select(Row::as_select())
        .for_update()
        .get_result(conn)
        .await
        .optional()?;
    Ok(row.map(Row::into_function))
}

pub async fn system_jobs_among(conn: &mut Conn, tenant: TenantId, jobs: &[&str]) -> DbResult<Vec<String>> {
    use crate::schema::{scheduled_jobs as j, task_functions as f};
    let found = j::table
        .inner_join(f::table.on(f::tenant_id.eq(j::tenant_id).and(f::id.eq(j::task_function_id))))
        .filter(j::tenant_id.eq(tenant).and(j::deleted_at.is_null()))
        .filter(j::name.eq_any(jobs).and(f::is_system));
    Ok(found.select(j::name).order(j::name).load(conn).await?)
}

pub async fn any_is_system(conn: &mut Conn, tenant: TenantId, names: &[&str]) -> DbResult<bool> {
    use task_functions as f;
    let found = f::table.filter(f::tenant_id.eq(tenant)).filter(f::name.eq_any(names).and(f::is_system));
    Ok(diesel::select(diesel::dsl::exists(found)).get_result(conn).await?)
}

pub async fn any_runs_system(conn: &mut Conn, tenant: TenantId, dispatches: &[DispatchId]) -> DbResult<bool> {
    use crate::schema::{job_dispatch as d, scheduled_jobs as j, task_functions as f};
    let found = d::table
        .inner_join(j::table.on(j::tenant_id.eq(d::tenant_id).and(j::id.eq(d::job_id))))
        .inner_join(f::table.on(f::tenant_id.eq(j::tenant_id).and(f::id.eq(j::task_function_id))))
        .filter(d::tenant_id.eq(tenant))
        .filter(d::id.eq_any(dispatches).and(f::is_system));
    Ok(diesel::select(diesel::dsl::exists(found)).get_result(conn).await?)
}

/// Jobs of the tenant that run a built-in function, deleted ones included: a handful.
pub async fn system_jobs(conn: &mut Conn, tenant: TenantId) -> DbResult<Vec<JobId>> {
    use crate::schema::{scheduled_jobs as j, task_functions as f};
    let found = j::table
        .inner_join(f::table.on(f::tenant_id.eq(j::tenant_id).and(f::id.eq(j::task_function_id))))
        .filter(j::tenant_id.eq(tenant).and(f::is_system));
    Ok(found.select(j::id).load(conn).await?)
}
