//! Activation and deletion of functions.
//!
//! An inactive function accepts no new jobs and no triggers. Each of its jobs is disabled when due,
//! with a reason and an event ([`crate::dispatching::tick`]), until a user enables it. A function
//! without jobs can be deleted; deleted jobs keep its row.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::{Function, lock_by_name};
use crate::definitions::resources::{ChangeError, Expected, MOST_NAMED, Users};
use crate::schema::{scheduled_jobs, task_functions};
use crate::{Conn, connection::database_clock};
use sched_domain::ids::TenantId;

/// Locks a function for a change and checks its state; `None` if it does not exist and need not.
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

#[derive(Debug, Clone, Copy)]
pub struct Activation<'a> {
    pub name: &'a str,
    pub is_active: bool,
    /// The state that the function must have before the change.
    pub expected: Expected,
}

/// Activates or deactivates a function; returns its previous state. Call it in a transaction.
pub async fn set_active(
    conn: &mut Conn,
    tenant: TenantId,
    activation: Activation<'_>,
) -> Result<Function, ChangeError> {
    let Activation { name, is_active, expected } = activation;
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

/// Deletes a function, and returns it. Call it in a transaction.
///
/// # Errors
/// [`ChangeError::InUse`] while jobs run it, [`ChangeError::BuiltIn`] if it is built in.
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
