//! `schedulers`: list and show the scheduler processes.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::{Page, SchedulerInstance, SchedulerStatus};
use uuid::Uuid;

use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::{Column, offset, or_dash, time};
use crate::values::id;

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulersCommand {
    /// List schedulers
    List,
    /// Show one scheduler
    #[command(visible_alias = "show")]
    Get {
        /// Id, as shown by `schedctl schedulers list`
        #[arg(value_parser = id)]
        id: Uuid,
    },
}

const SCHEDULERS: &[Column<SchedulerInstance>] = &[
    Column::new("ID", |scheduler| scheduler.id.to_string()),
    Column::new("HOST", |scheduler| scheduler.hostname.clone()),
    Column::new("PID", |scheduler| scheduler.pid.to_string()),
    Column::new("STATUS", |scheduler| scheduler.status.to_string()),
    Column::new("ROLE", |scheduler| {
        or_dash(match (scheduler.is_leader, scheduler.status) {
            (true, SchedulerStatus::Offline) => Some("leader, lease expired"),
            (true, SchedulerStatus::Online) => Some("leader"),
            (false, SchedulerStatus::Online) => Some("standby"),
            (false, SchedulerStatus::Offline) => None,
        })
    }),
    Column::new("TERM", |scheduler| or_dash(scheduler.term)),
    Column::new("HEARTBEAT", |scheduler| time(scheduler.last_heartbeat)),
    Column::wide("LEADER SINCE", |scheduler| or_dash(scheduler.leader_since.map(time))),
    Column::wide("CLOCK OFFSET", |scheduler| or_dash(scheduler.clock_offset_seconds.map(offset))),
    Column::wide("STARTED", |scheduler| time(scheduler.started_at)),
    Column::wide("VERSION", |scheduler| scheduler.version.clone()),
];

pub(crate) async fn schedulers(command: SchedulersCommand, session: &Session) -> CommandResult {
    match command {
        SchedulersCommand::List => {
            let page: Page<SchedulerInstance> = session.api()?.get(&["schedulers"], &()).await?;
            session.output.page(&page, SCHEDULERS, "no scheduler has registered")?;
        }
        SchedulersCommand::Get { id } => {
            let path = ["schedulers", &id.to_string()];
            let scheduler: SchedulerInstance = session.api()?.get(&path, &()).await?;
            session.output.whole(&scheduler, SCHEDULERS)?;
        }
    }
    Ok(exit::OK)
}
