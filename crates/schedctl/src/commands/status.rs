//! `status`: the installation at a glance, and what in it needs attention.

use sched_runtime::exit;
use sched_wire::{LeaderState, QueueStatus, Status};

use super::{Session, leader};
use crate::failure::CommandResult;
use crate::output::{Column, neutral, or_dash, tell, time};

const STATUS: &[Column<Status>] = &[
    Column::new("Jobs", |status| {
        let quarantined = match status.jobs_quarantined {
            0 => String::new(),
            count => format!(", {count} disabled by the scheduler"),
        };
        format!("{} active, {} inactive{quarantined}", status.jobs_active, status.jobs_inactive)
    }),
    Column::new("Next fire", |status| or_dash(status.next_run_at.map(time))),
    Column::new("Dispatches", |status| {
        format!("{} pending, {} running", status.dispatches_pending, status.dispatches_running)
    }),
    Column::new("Workers", |status| format!("{} online", status.workers_online)),
    Column::new("Schedulers", |status| {
        let leads = match (status.leader_state, status.lease_expired_seconds) {
            (LeaderState::Live, _) => "one leads".to_owned(),
            (LeaderState::Expired, ago) => format!("none leads, lease expired {}s ago", ago.unwrap_or(0)),
            (LeaderState::None, _) => "none leads".to_owned(),
        };
        format!("{}, {leads}", status.schedulers)
    }),
    Column::new("Database time", |status| time(status.now)),
];

const QUEUES: &[Column<QueueStatus>] = &[
    Column::new("QUEUE", |queue| queue.name.clone()),
    Column::new("WAITING", |queue| queue.waiting.to_string()),
    Column::new("OLDEST SINCE", |queue| or_dash(queue.oldest_claimable_at.map(time))),
    Column::new("SERVED", |queue| queue.has_live_worker.to_string()),
    Column::new("PAUSED", |queue| queue.is_paused.to_string()),
    Column::new("LIMITS", limits),
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

/// The limits of a queue, with what is used of them.
fn limits(queue: &QueueStatus) -> String {
    let running =
        queue.max_running.map(|most| format!("{} of {most} running", queue.running.unwrap_or_default()));
    let claimed = queue.rate.map(|rate| {
        let claimed = queue.claimed_in_period.unwrap_or_default();
        format!("{claimed} of {} claimed in {}s", rate.count, rate.period_seconds)
    });
    let limits: Vec<String> = running.into_iter().chain(claimed).collect();
    or_dash(Some(limits.join(", ")).filter(|limits| !limits.is_empty()))
}

/// What keeps work from being done.
fn attention(status: &Status) -> Vec<String> {
    let mut found: Vec<String> =
        leader::trouble(status.leader_state, status.lease_expired_seconds).into_iter().collect();
    if status.workers_online == 0 {
        found.push("no worker is online: nothing is executed until one is started".to_owned());
    }
    for queue in &status.queues {
        found.extend(in_queue(queue, status.workers_online > 0));
    }
    for job in &status.quarantined {
        let reason = job.reason.as_deref().unwrap_or("no reason was kept");
        found.push(format!(
            "the scheduler disabled the job {}: {}; correct it, then `schedctl jobs enable` it",
            neutral::line(&job.name),
            neutral::line(reason)
        ));
    }
    let unnamed = status.jobs_quarantined - i64::try_from(status.quarantined.len()).unwrap_or(i64::MAX);
    if unnamed > 0 {
        found.push(format!("the scheduler disabled {unnamed} more jobs"));
    }
    found
}

/// What keeps the work of a queue from being done. Without any worker that is no matter of one queue.
fn in_queue(queue: &QueueStatus, has_workers: bool) -> Vec<String> {
    let (name, waiting) = (neutral::line(&queue.name), queue.waiting);
    let mut found = Vec::new();
    if queue.is_paused {
        let reason = queue.pause_reason.as_ref();
        let reason = reason.map_or_else(String::new, |reason| format!(" ({})", neutral::line(reason)));
        found.push(format!("the queue {name} is paused{reason}: {waiting} dispatches wait behind that"));
    }
    if !queue.has_live_worker && waiting > 0 && has_workers {
        found.push(format!(
            "no online worker serves the queue {name}, in which {waiting} dispatches wait: start one with --worker-queues {name}"
        ));
    }
    if queue.is_at_limit && waiting > 0 {
        found
            .push(format!("the queue {name} is at its limit ({}): {waiting} dispatches wait", limits(queue)));
    }
    found
}

#[cfg(test)]
mod tests {
    use sched_wire::{QuarantinedJob, Rate};

    use super::*;

    fn queue(name: &str) -> QueueStatus {
        QueueStatus {
            name: name.into(),
            waiting: 3,
            oldest_claimable_at: Some(chrono::DateTime::UNIX_EPOCH),
            has_live_worker: true,
            is_paused: false,
            pause_reason: None,
            is_at_limit: false,
            max_running: None,
            running: None,
            rate: None,
            claimed_in_period: None,
        }
    }

    fn status(queues: Vec<QueueStatus>) -> Status {
        Status {
            now: chrono::DateTime::UNIX_EPOCH,
            jobs_active: 1,
            jobs_inactive: 0,
            jobs_quarantined: 0,
            quarantined: Vec::new(),
            next_run_at: None,
            dispatches_pending: 3,
            dispatches_running: 0,
            workers_online: 1,
            schedulers: 1,
            has_leader: true,
            leader_state: LeaderState::Live,
            lease_expired_seconds: None,
            queues,
        }
    }

    #[test]
    fn what_keeps_work_from_being_done_is_said_and_nothing_else() {
        let rate = Some(Rate { count: 10, period_seconds: 60 });
        let limited = QueueStatus { max_running: Some(2), running: Some(1), rate, ..queue("narrow") };
        let quarantined = QuarantinedJob { name: "broken".into(), reason: Some("no such zone".into()) };
        let unserved = QueueStatus { has_live_worker: false, ..queue("gpu") };
        let broken = Status { jobs_quarantined: 3, quarantined: vec![quarantined], ..status(Vec::new()) };
        let expired = Status {
            leader_state: LeaderState::Expired,
            lease_expired_seconds: Some(9),
            ..status(Vec::new())
        };
        let table: Vec<(Status, &[&str])> = vec![
            (status(vec![queue("default"), limited.clone()]), &[]),
            (status(vec![unserved.clone()]), &["serves the queue gpu, in which 3 dispatches wait"]),
            (Status { workers_online: 0, ..status(vec![unserved]) }, &["no worker is online"]),
            (
                status(vec![QueueStatus {
                    is_paused: true,
                    pause_reason: Some("disk".into()),
                    ..queue("io")
                }]),
                &["the queue io is paused (disk): 3 dispatches wait"],
            ),
            (
                status(vec![QueueStatus { is_at_limit: true, running: Some(2), ..limited.clone() }]),
                &[
                    "the queue narrow is at its limit (2 of 2 running, 0 of 10 claimed in 60s): 3 dispatches wait",
                ],
            ),
            (status(vec![QueueStatus { is_at_limit: true, waiting: 0, ..limited }]), &[]),
            (broken, &["disabled the job broken: no such zone", "disabled 2 more jobs"]),
            (expired, &["expired 9s ago, and nobody has taken over yet"]),
            (
                Status { leader_state: LeaderState::None, ..status(Vec::new()) },
                &["no scheduler leads: no job fires"],
            ),
        ];
        for (status, expected) in table {
            let found = attention(&status);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{found}");
            }
        }
    }
}
