//! `functions`, `workers` and `schedulers`: what can be run, and the processes that run it.

use sched_runtime::exit;
use sched_wire::{Function, Page, PageQuery, SchedulerInstance, Worker};

use super::{Session, tell_of_more};
use crate::cli::{AllCommand, ListCommand};
use crate::failure::CommandResult;
use crate::output::{Column, offset, or_dash, time, words};

const FUNCTIONS: &[Column<Function>] = &[
    Column::new("NAME", |function| function.name.clone()),
    Column::new("HANDLER", |function| function.handler_type.clone()),
    Column::new("QUEUE", |function| function.queue.clone()),
    Column::new("TIMEOUT", |function| format!("{}s", function.default_timeout_seconds)),
    Column::new("ATTEMPTS", |function| {
        or_dash(function.retry_policy.as_ref().map(|policy| policy.max_attempts))
    }),
    Column::new("ACTIVE", |function| function.is_active.to_string()),
    Column::wide("DESCRIPTION", |function| function.description.clone()),
    Column::wide("UPDATED", |function| time(function.updated_at)),
    Column::wide("ID", |function| function.id.to_string()),
];

const WORKERS: &[Column<Worker>] = &[
    Column::new("ID", |worker| worker.id.to_string()),
    Column::new("HOST", |worker| worker.hostname.clone()),
    Column::new("PID", |worker| worker.process_id.to_string()),
    Column::new("STATUS", |worker| worker.status.to_string()),
    Column::new("RUNNING", |worker| format!("{}/{}", worker.running, worker.concurrency)),
    Column::new("QUEUES", |worker| words(&worker.queues)),
    Column::new("HEARTBEAT", |worker| time(worker.last_heartbeat)),
    Column::wide("PROCESSED", |worker| worker.jobs_processed.to_string()),
    Column::wide("STARTED", |worker| time(worker.started_at)),
    Column::wide("OFFLINE SINCE", |worker| or_dash(worker.offline_since.map(time))),
    Column::wide("VERSION", |worker| worker.version.clone()),
    Column::wide("PLATFORM", |worker| worker.platform.clone()),
];

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

pub(super) async fn functions(command: ListCommand, session: &Session) -> CommandResult {
    let ListCommand::List { limit } = command;
    let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
    let (items, more) = session.api()?.list(&["task-functions"], limit, query).await?;
    session.output.list(&items, FUNCTIONS, "there are no task functions")?;
    tell_of_more(more, limit);
    Ok(exit::OK)
}

pub(super) async fn workers(command: AllCommand, session: &Session) -> CommandResult {
    let AllCommand::List = command;
    let page: Page<Worker> = session.api()?.get(&["workers"], &()).await?;
    session.output.list(&page.items, WORKERS, "no worker has registered")?;
    Ok(exit::OK)
}

pub(super) async fn schedulers(command: AllCommand, session: &Session) -> CommandResult {
    let AllCommand::List = command;
    let page: Page<SchedulerInstance> = session.api()?.get(&["scheduler-instances"], &()).await?;
    session.output.list(&page.items, SCHEDULERS, "no scheduler has registered")?;
    Ok(exit::OK)
}
