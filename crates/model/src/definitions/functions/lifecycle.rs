//! The life of a function besides its settings: being active or not, and its end.
//!
//! A function that is not active accepts no new job and no trigger; each job it has is disabled when it comes due, with the reason and an
//! event ([`crate::dispatching::tick`]), and stays so until somebody enables it. A function is deleted when no job runs it; jobs that are deleted
//! themselves keep its row.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::{Function, lock_by_name};
use crate::definitions::resources::{ChangeError, Expected, MOST_NAMED, Users};
use crate::schema::{scheduled_jobs, task_functions};
use crate::{Conn, connection::database_clock};
use sched_domain::ids::TenantId;

/// Locks a function that is to be changed, if it is as expected; `None` if it is not there and need not be.
///
/// # Errors
/// When it is not as expected, or the database cannot be asked.
pub async fn expect(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
    expected: Expected,
) -> Result<Option<Function>, ChangeError> {
    let found = lock_by_name(conn, tenant, name).await?;
    match &found {
        Some(function) => expected.of_present(function.updated_at)?,
        None => expected.of_absent()?,
    }
    Ok(found)
}

/// Says whether a function accepts jobs; returns it as it was. Call it in a transaction.
///
/// # Errors
/// When it is not there or not as expected, or the database cannot be asked.
pub async fn set_active(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
    is_active: bool,
    expected: Expected,
) -> Result<Function, ChangeError> {
    let before = expect(conn, tenant, name, expected).await?.ok_or(ChangeError::NotFound)?;
    if before.is_active != is_active {
        diesel::update(task_functions::table.find((tenant, before.id)))
            .set((
                task_functions::is_active.eq(is_active),
                task_functions::updated_at.eq(database_clock::clock_timestamp()),
            ))
            .execute(conn)
            .await?;
    }
    Ok(before)
}

/// Deletes a function that no job runs, and returns what it was. Call it in a transaction.
///
/// # Errors
/// [`ChangeError::InUse`] while jobs run it, [`ChangeError::BuiltIn`] of a built-in one.
pub async fn delete(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
    expected: Expected,
) -> Result<Function, ChangeError> {
    let function = expect(conn, tenant, name, expected).await?.ok_or(ChangeError::NotFound)?;
    if function.is_system {
        return Err(ChangeError::BuiltIn);
    }
    let jobs = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::task_function_id.eq(function.id))
        .filter(scheduled_jobs::deleted_at.is_null())
        .order(scheduled_jobs::name)
        .limit(MOST_NAMED + 1)
        .select(scheduled_jobs::name)
        .load(conn)
        .await?;
    if let Some(users) = Users::of("jobs", jobs) {
        return Err(ChangeError::InUse(users));
    }
    diesel::update(task_functions::table.find((tenant, function.id)))
        .set((
            task_functions::deleted_at.eq(database_clock::clock_timestamp().nullable()),
            task_functions::updated_at.eq(database_clock::clock_timestamp()),
            task_functions::is_active.eq(false),
            task_functions::is_paused.eq(false),
            task_functions::pause_reason.eq(None::<String>),
        ))
        .execute(conn)
        .await?;
    Ok(function)
}
