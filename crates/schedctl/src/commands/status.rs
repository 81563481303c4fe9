//! `status`: the installation at a glance, and what in it needs attention.

use sched_runtime::exit;
use sched_wire::{QueueStatus, Status};

use super::Session;
use crate::failure::CommandResult;
use crate::output::{Column, or_dash, tell, time};

const STATUS: &[Column<Status>] = &[
    Column::new("Jobs", |status| format!("{} active, {} inactive", status.jobs_active, status.jobs_inactive)),
    Column::new("Next fire", |status| or_dash(status.next_run_at.map(time))),
    Column::new("Dispatches", |status| {
        format!("{} pending, {} running", status.dispatches_pending, status.dispatches_running)
    }),
    Column::new("Workers", |status| format!("{} online", status.workers_online)),
    Column::new("Schedulers", |status| {
        format!("{}, {}", status.schedulers, if status.has_leader { "one leads" } else { "none leads" })
    }),
    Column::new("Database time", |status| time(status.now)),
];

const QUEUES: &[Column<QueueStatus>] = &[
    Column::new("QUEUE", |queue| queue.name.clone()),
    Column::new("WAITING", |queue| queue.waiting.to_string()),
    Column::new("OLDEST SINCE", |queue| time(queue.oldest_claimable_at)),
    Column::new("SERVED", |queue| queue.has_live_worker.to_string()),
    Column::new("PAUSED", |queue| queue.is_paused.to_string()),
];

pub(super) async fn run(session: &Session) -> CommandResult {
    let status: Status = session.api()?.get(&["status"], &()).await?;
    session.output.record(&status, STATUS)?;
    if session.output.is_table() {
        if !status.queues.is_empty() {
            session.output.print("\n")?;
            session.output.list(&status.queues, QUEUES, "")?;
        }
        attention(&status).iter().for_each(|text| tell(text));
    }
    Ok(exit::OK)
}

/// What keeps work from being done.
fn attention(status: &Status) -> Vec<String> {
    let mut found = Vec::new();
    if !status.has_leader {
        found.push("no scheduler leads: no job fires until one is started or takes over".to_owned());
    }
    if status.workers_online == 0 {
        found.push("no worker is online: nothing is executed until one is started".to_owned());
    }
    let unserved = status.queues.iter().filter(|queue| !queue.has_live_worker && status.workers_online > 0);
    found.extend(unserved.map(|queue| {
        let name = crate::output::neutral::line(&queue.name);
        format!("no online worker serves the queue {name}: start one with --worker-queues {name}")
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_work_from_being_done_is_said() {
        let now = chrono::DateTime::UNIX_EPOCH;
        let queue = QueueStatus {
            name: "gpu".into(),
            waiting: 3,
            oldest_claimable_at: now,
            has_live_worker: false,
            is_paused: false,
        };
        let mut status = Status {
            now,
            jobs_active: 1,
            jobs_inactive: 0,
            next_run_at: None,
            dispatches_pending: 3,
            dispatches_running: 0,
            workers_online: 1,
            schedulers: 1,
            has_leader: true,
            queues: vec![queue],
        };
        assert_eq!(attention(&status).len(), 1);
        assert!(attention(&status)[0].contains("gpu"));
        status.workers_online = 0;
        status.has_leader = false;
        assert_eq!(attention(&status).len(), 2);
        status.queues.clear();
        status.workers_online = 1;
        status.has_leader = true;
        assert_eq!(attention(&status), Vec::<String>::new());
    }
}
