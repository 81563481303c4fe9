//! `status`: the installation at a glance, with warnings. Exit code 1 without a leader.

use chrono::{DateTime, Utc};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{Job, JobStatus, JobsQuery, LeaderState, Page, QueueStatus, Status};

use super::leader;
use crate::api::Api;
use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::{Column, count, neutral, or_dash, print_notice, time, yes_or_no};

struct StatusWithCounts {
    status: Status,
    /// Jobs as `jobs list` shows them, without built-in ones; `None` if there are too many to count.
    own: Option<OwnJobs>,
}

#[derive(Debug, Clone, Copy)]
struct OwnJobs {
    all: i64,
    enabled: i64,
}

const STATUS: &[Column<StatusWithCounts>] = &[
    Column::new("Jobs", jobs),
    Column::new("Next fire", |StatusWithCounts { status, .. }| {
        let job = status.next_due.first().filter(|job| Some(job.next_run_at) == status.next_run_at);
        let job = job.map_or_else(String::new, |job| format!(" ({})", neutral::line(&job.name)));
        or_dash(status.next_run_at.map(|at| format!("{}{job}", time(at))))
    }),
    Column::new("Runs", |StatusWithCounts { status, .. }| {
        format!("{} waiting, {} running", status.runs_waiting, status.runs_running)
    }),
    Column::new("Workers", |StatusWithCounts { status, .. }| format!("{} online", status.workers_online)),
    Column::new("Schedulers", |StatusWithCounts { status, .. }| {
        let leads = match (status.leader_state, status.lease_expired_seconds) {
            (LeaderState::Live, _) => "one leads".to_owned(),
            (LeaderState::Expired, ago) => format!("none leads, lease expired {}s ago", ago.unwrap_or(0)),
            (LeaderState::None, _) => "none leads".to_owned(),
        };
        format!("{} online, {leads}", status.schedulers)
    }),
    Column::new("Database time", |StatusWithCounts { status, .. }| time(status.now)),
];

struct QueueAt {
    queue: QueueStatus,
    now: DateTime<Utc>,
}

const QUEUES: &[Column<QueueAt>] = &[
    Column::new("QUEUE", |at| at.queue.name.clone()),
    Column::new("WAITING", |at| at.queue.waiting.to_string()),
    Column::new("WAITING SINCE", |at| or_dash(at.due().map(time))),
    Column::new("FIRST DUE", |at| or_dash(at.later().map(time))),
    Column::new("HAS WORKER", |at| yes_or_no(at.queue.has_live_worker)),
    Column::new("PAUSED", |at| yes_or_no(at.queue.is_paused)),
    Column::new("LIMITS", |at| limits(&at.queue)),
];

impl QueueAt {
    fn due(&self) -> Option<DateTime<Utc>> {
        self.queue.oldest_claimable_at.filter(|at| *at <= self.now)
    }

    /// If all runs wait for a later time, such as a retry.
    fn later(&self) -> Option<DateTime<Utc>> {
        self.queue.oldest_claimable_at.filter(|at| *at > self.now)
    }
}

pub(crate) async fn run(session: &Session) -> CommandResult {
    let api = session.api()?;
    let status: Status = api.get(&["status"], &()).await?;
    let code = if status.leader_state == LeaderState::Live { exit::OK } else { exit::FAILURE };
    if !session.output.is_table() {
        session.output.record(&status, &[])?;
        return Ok(code);
    }
    let own = own_jobs(&api).await?;
    let counted = StatusWithCounts { status, own };
    session.output.table(&counted, STATUS)?;
    let status = counted.status;
    if !status.queues.is_empty() {
        session.output.print("\n")?;
        let at = |queue: &QueueStatus| QueueAt { queue: queue.clone(), now: status.now };
        session.output.rows(&status.queues.iter().map(at).collect::<Vec<_>>(), QUEUES)?;
    }
    attention(&status).iter().for_each(|text| print_notice(text));
    Ok(code)
}

/// The status counts all jobs, the list only those that are not built in.
async fn own_jobs(api: &Api) -> Result<Option<OwnJobs>, ExitError> {
    let count = async |status| {
        let query = JobsQuery { status, total: Some(true), limit: Some(1), ..JobsQuery::default() };
        let page: Page<Job> = api.get(&["jobs"], &query).await?;
        Ok::<_, ExitError>(page.total.and_then(|total| i64::try_from(total).ok()))
    };
    let (all, enabled) = (count(None).await?, count(Some(JobStatus::Enabled)).await?);
    Ok(all.zip(enabled).map(|(all, enabled)| OwnJobs { all, enabled }))
}

fn jobs(counted: &StatusWithCounts) -> String {
    let Status { jobs_active, jobs_inactive, jobs_quarantined, .. } = counted.status;
    let quarantined = match jobs_quarantined {
        0 => String::new(),
        count => format!("; {count} quarantined"),
    };
    let both = |enabled: i64, other: i64| match other {
        0 => format!("{enabled} enabled"),
        _ => format!("{enabled} enabled, {other} paused or disabled"),
    };
    let Some(OwnJobs { all, enabled }) = counted.own else {
        return format!("{}, including built-in ones{quarantined}", both(jobs_active, jobs_inactive));
    };
    // The counts may be from around a change.
    let built_in = ((jobs_active - enabled).max(0), (jobs_inactive - (all - enabled)).max(0));
    let built_in = match built_in {
        (0, 0) => String::new(),
        (enabled, other) => format!("; built in: {}", both(enabled, other)),
    };
    format!("{}{built_in}{quarantined}", both(enabled, all - enabled))
}

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

fn attention(status: &Status) -> Vec<String> {
    let mut found: Vec<String> =
        leader::trouble(status.leader_state, status.lease_expired_seconds).into_iter().collect();
    if status.workers_online == 0 {
        found.push("no worker is online: no run starts until one is started".to_owned());
    }
    for queue in &status.queues {
        found.extend(in_queue(queue, status.workers_online > 0));
    }
    for job in &status.quarantined {
        let reason = job.reason.as_deref().unwrap_or("no reason was stored");
        found.push(format!(
            "the scheduler has quarantined the job {}: {}; fix it, then run `schedctl jobs enable`",
            neutral::line(&job.name),
            neutral::line(reason)
        ));
    }
    let unnamed = status.jobs_quarantined - i64::try_from(status.quarantined.len()).unwrap_or(i64::MAX);
    if unnamed > 0 {
        let more = count(unnamed, "more job", "more jobs");
        found.push(format!(
            "the scheduler has quarantined {more}; see `schedctl jobs list --all --status quarantined`"
        ));
    }
    found
}

/// Without any worker, no warning per queue.
fn in_queue(queue: &QueueStatus, has_workers: bool) -> Vec<String> {
    let (name, waiting) = (neutral::line(&queue.name), queue.waiting);
    let runs_wait = count(waiting, "run waits", "runs wait");
    let mut found = Vec::new();
    if queue.is_paused {
        let reason = queue.pause_reason.as_ref();
        let reason = reason.map_or_else(String::new, |reason| format!(" ({})", neutral::line(reason)));
        found.push(format!("the queue {name} is paused{reason}: {runs_wait}"));
    }
    if !queue.has_live_worker && waiting > 0 && has_workers {
        found.push(match queue.workers_draining {
            0 => format!(
                "no online worker serves the queue {name}, in which {runs_wait}: start one with --worker-queues {name}"
            ),
            1 => format!(
                "the only worker of the queue {name} drains, and {runs_wait} in it: start another with \
                 --worker-queues {name}, or undrain it with `schedctl workers undrain`"
            ),
            draining => format!(
                "all {draining} workers of the queue {name} drain, and {runs_wait} in it: start a worker with \
                 --worker-queues {name}, or undrain one with `schedctl workers undrain`"
            ),
        });
    }
    if queue.is_at_limit && waiting > 0 {
        found.push(format!("the queue {name} is at its limit ({}): {runs_wait}", limits(queue)));
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
            workers_draining: 0,
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
            next_due: Vec::new(),
            runs_waiting: 3,
            runs_running: 0,
            workers_online: 1,
            schedulers: 1,
            has_leader: true,
            leader_state: LeaderState::Live,
            lease_expired_seconds: None,
            queues,
        }
    }

    #[test]
    fn own_jobs_are_counted_like_the_list_and_built_in_ones_apart() {
        let of = |(jobs_active, jobs_inactive, jobs_quarantined), own: Option<(i64, i64)>| {
            let status = Status { jobs_active, jobs_inactive, jobs_quarantined, ..status(Vec::new()) };
            let own = own.map(|(all, enabled)| OwnJobs { all, enabled });
            jobs(&StatusWithCounts { status, own })
        };
        assert_eq!(of((18, 2, 0), Some((14, 14))), "14 enabled; built in: 4 enabled, 2 paused or disabled");
        assert_eq!(of((3, 2, 0), Some((0, 0))), "0 enabled; built in: 3 enabled, 2 paused or disabled");
        assert_eq!(of((1, 2, 1), Some((3, 1))), "1 enabled, 2 paused or disabled; 1 quarantined");
        assert_eq!(of((1, 0, 0), Some((2, 2))), "2 enabled");
        let many = "9000 enabled, 2000 paused or disabled, including built-in ones";
        assert_eq!(of((9000, 2000, 0), None), many);
    }

    #[test]
    fn what_is_due_later_has_not_waited() {
        let now = chrono::DateTime::UNIX_EPOCH;
        let at = |seconds: i64| {
            let oldest = Some(now + chrono::TimeDelta::seconds(seconds));
            let at = QueueAt { queue: QueueStatus { oldest_claimable_at: oldest, ..queue("q") }, now };
            (at.due().is_some(), at.later().is_some())
        };
        assert_eq!([at(-1), at(0), at(1)], [(true, false), (true, false), (false, true)]);
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
            (status(vec![unserved.clone()]), &["serves the queue gpu, in which 3 runs wait"]),
            (
                status(vec![QueueStatus { workers_draining: 2, ..unserved.clone() }]),
                &["all 2 workers of the queue gpu drain, and 3 runs wait in it"],
            ),
            (Status { workers_online: 0, ..status(vec![unserved]) }, &["no worker is online"]),
            (
                status(vec![QueueStatus {
                    is_paused: true,
                    pause_reason: Some("disk".into()),
                    ..queue("io")
                }]),
                &["the queue io is paused (disk): 3 runs wait"],
            ),
            (
                status(vec![QueueStatus { is_at_limit: true, running: Some(2), ..limited.clone() }]),
                &["the queue narrow is at its limit (2 of 2 running, 0 of 10 claimed in 60s): 3 runs wait"],
            ),
            (status(vec![QueueStatus { is_at_limit: true, waiting: 0, ..limited }]), &[]),
            (broken, &["quarantined the job broken: no such zone", "quarantined 2 more jobs"]),
            (expired, &["expired 9s ago, and no scheduler has taken over yet"]),
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
