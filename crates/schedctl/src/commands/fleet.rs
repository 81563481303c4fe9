//! `schedulers`: the processes that decide what runs when.

use sched_runtime::exit;
use sched_wire::{Page, SchedulerInstance};

use super::Session;
use crate::cli::AllCommand;
use crate::failure::CommandResult;
use crate::output::{Column, offset, or_dash, time};

const SCHEDULERS: &[Column<SchedulerInstance>] = &[
    Column::new("ID", |scheduler| scheduler.id.to_string()),
    Column::new("HOST", |scheduler| scheduler.hostname.clone()),
    Column::new("PID", |scheduler| scheduler.pid.to_string()),
    Column::new("ROLE", |scheduler| {
        match (scheduler.is_leader, scheduler.lease_expired_seconds) {
            (true, Some(_)) => "leader, lease expired",
            (true, None) => "leader",
            (false, _) => "standby",
        }
        .to_owned()
    }),
    Column::new("TERM", |scheduler| or_dash(scheduler.term)),
    Column::new("HEARTBEAT", |scheduler| time(scheduler.last_heartbeat)),
    Column::wide("LEADER SINCE", |scheduler| or_dash(scheduler.leader_since.map(time))),
    Column::wide("CLOCK OFFSET", |scheduler| or_dash(scheduler.clock_offset_seconds.map(offset))),
    Column::wide("STARTED", |scheduler| time(scheduler.started_at)),
    Column::wide("VERSION", |scheduler| scheduler.version.clone()),
];

pub(super) async fn schedulers(command: AllCommand, session: &Session) -> CommandResult {
    let AllCommand::List = command;
    let page: Page<SchedulerInstance> = session.api()?.get(&["scheduler-instances"], &()).await?;
    session.output.page(&page, SCHEDULERS, "no scheduler has registered")?;
    Ok(exit::OK)
}
