//! Kill switches: pausing a tenant, a project, a queue or a task function, with a reason.
//!
//! From the commit on, ticks and claims dispatch and claim nothing of a paused resource. The tick
//! records the fire times of the pause as skipped ([`crate::dispatching::tick`]). A paused queue
//! also holds its runs, and the waiting runs of other paused resources keep waiting
//! ([`crate::dispatching::overlap_queue::queue_paused`]). Running work continues.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::resources::{ChangeError, Expected};
use crate::schema::{projects, queues, task_functions, tenants};
use crate::{Conn, connection::database_clock};
use sched_domain::ids::TenantId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    Tenant,
    Project(&'a str),
    Queue(&'a str),
    Function(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseCommand<'a> {
    /// Also changes the reason of a pause; `None` keeps it.
    Pause(Option<&'a str>),
    Resume,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PauseState {
    pub is_paused: bool,
    pub pause_reason: Option<String>,
}

impl PauseState {
    fn after(&self, command: PauseCommand<'_>) -> Self {
        match command {
            PauseCommand::Resume => Self { is_paused: false, pause_reason: None },
            PauseCommand::Pause(reason) => {
                let reason = reason.map(str::to_owned).or_else(|| self.pause_reason.clone());
                Self { is_paused: true, pause_reason: reason }
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseTransition {
    pub before: PauseState,
    pub after: PauseState,
}

impl PauseTransition {
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.before != self.after
    }
}

macro_rules! set_pause_row {
    ($conn:ident, $table:ident, $row:expr, $command:ident, $expected:ident) => {{
        let row = $row;
        let found: Option<(bool, Option<String>, DateTime<Utc>)> = row
            .select(($table::is_paused, $table::pause_reason, $table::updated_at))
            .for_no_key_update()
            .get_result($conn)
            .await
            .optional()?;
        let (is_paused, pause_reason, updated_at) = found.ok_or(ChangeError::NotFound)?;
        $expected.of_present(updated_at)?;
        let before = PauseState { is_paused, pause_reason };
        let transition = PauseTransition { after: before.after($command), before };
        if transition.is_change() {
            diesel::update(row)
                .set((
                    $table::is_paused.eq(transition.after.is_paused),
                    $table::pause_reason.eq(transition.after.pause_reason.as_deref()),
                    $table::updated_at.eq(database_clock::clock_timestamp()),
                ))
                .execute($conn)
                .await?;
        }
        transition
    }};
}

#[derive(Debug, Clone, Copy)]
pub struct PauseRequest<'a> {
    pub target: Target<'a>,
    pub command: PauseCommand<'a>,
    /// The state that the resource must have before the change.
    pub expected: Expected,
}

/// Turns a kill switch. Call it in a transaction.
///
/// # Errors
/// The resource does not exist or has another version.
pub async fn set_pause(
    conn: &mut Conn,
    tenant: TenantId,
    request: PauseRequest<'_>,
) -> Result<PauseTransition, ChangeError> {
    let PauseRequest { target, command, expected } = request;
    Ok(match target {
        Target::Tenant => {
            set_pause_row!(conn, tenants, tenants::table.filter(tenants::id.eq(tenant)), command, expected)
        }
        Target::Project(name) => {
            let row = projects::table
                .filter(projects::tenant_id.eq(tenant))
                .filter(projects::name.eq(name))
                .filter(projects::deleted_at.is_null());
            set_pause_row!(conn, projects, row, command, expected)
        }
        Target::Queue(name) => {
            let row = queues::table.filter(queues::tenant_id.eq(tenant)).filter(queues::name.eq(name));
            set_pause_row!(conn, queues, row, command, expected)
        }
        Target::Function(name) => {
            let row = task_functions::table
                .filter(task_functions::tenant_id.eq(tenant))
                .filter(task_functions::name.eq(name))
                .filter(task_functions::deleted_at.is_null());
            set_pause_row!(conn, task_functions, row, command, expected)
        }
    })
}
