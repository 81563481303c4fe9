//! `leader`: show the leader, or hand leadership over. Success is a later term of another leader. A
//! wait that times out does not withdraw the request.

use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::{LeaderState, Page, SchedulerInstance, SchedulerStatus, StepDownRequest};
use serde::Serialize;

use crate::api::{Api, ApiError};
use crate::commands::Session;
use crate::failure::{CommandResult, failure};
use crate::output::{Column, offset, or_dash, print_notice, time};
use crate::values::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum LeaderCommand {
    /// Show the leader, the start of its leadership, and the standbys; exit code 0 only if a
    /// scheduler leads
    ///
    /// For monitoring: the exit code is 1 if no scheduler leads, or if the leader has not renewed
    /// its lease and no standby has taken over; 6 if the API is unreachable. The API knows the
    /// lease as `LEADER_LEASE`.
    Status,
    /// Request that the leader hands over to a standby, and wait for the new leader; exit code 1 if
    /// none takes over
    ///
    /// The leader finishes its current transaction, stops, and is replaced at once. It continues as
    /// a standby. Rejected with exit code 7 if there is no standby.
    StepDown {
        /// Also without a standby: nothing is dispatched for two leases, then the same scheduler
        /// leads again
        #[arg(long)]
        force: bool,
        /// Maximum wait for the new leader
        #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
        wait_timeout: Duration,
    },
}

const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Serialize)]
struct LeaderStatus {
    leader_state: LeaderState,
    lease_expired_seconds: Option<u64>,
    /// Or the last one, while no standby has taken over.
    leader: Option<SchedulerInstance>,
    standbys: Vec<SchedulerInstance>,
    /// Silent for longer than the lease, and not the last leader.
    offline: Vec<SchedulerInstance>,
}

const STATUS: &[Column<LeaderStatus>] = &[
    Column::new("State", |status| match status.lease_expired_seconds {
        Some(seconds) => format!("{} {seconds}s ago", status.leader_state),
        None => status.leader_state.to_string(),
    }),
    Column::new("Leader", |status| or_dash(status.leader.as_ref().map(process))),
    Column::new("ID", |status| or_dash(status.leader.as_ref().map(|leader| leader.id))),
    Column::new("Term", |status| or_dash(status.leader.as_ref().and_then(|leader| leader.term))),
    Column::new("Leads since", |status| {
        or_dash(status.leader.as_ref().and_then(|leader| leader.leader_since).map(time))
    }),
    Column::new("Heartbeat", |status| {
        or_dash(status.leader.as_ref().map(|leader| time(leader.last_heartbeat)))
    }),
    Column::new("Clock offset", |status| {
        or_dash(status.leader.as_ref().and_then(|leader| leader.clock_offset_seconds).map(offset))
    }),
    Column::new("Stepping down", |status| {
        let asked_at = status.leader.as_ref().and_then(|leader| leader.step_down_requested_at);
        asked_at.map_or_else(|| "no".to_owned(), |at| format!("requested at {}", time(at)))
    }),
    Column::new("Standbys", |status| processes(&status.standbys)),
    Column::new("Offline", |status| processes(&status.offline)),
];

#[derive(Debug, Serialize)]
struct HandOver {
    stepped_down: SchedulerInstance,
    leader: SchedulerInstance,
}

const HAND_OVER: &[Column<HandOver>] = &[
    Column::new("Stepped down", |hand_over| process(&hand_over.stepped_down)),
    Column::new("Former term", |hand_over| or_dash(hand_over.stepped_down.term)),
    Column::new("New leader", |hand_over| process(&hand_over.leader)),
    Column::new("Term", |hand_over| or_dash(hand_over.leader.term)),
    Column::new("Leads since", |hand_over| or_dash(hand_over.leader.leader_since.map(time))),
    Column::wide("Former ID", |hand_over| hand_over.stepped_down.id.to_string()),
    Column::wide("Leader ID", |hand_over| hand_over.leader.id.to_string()),
];

pub(crate) async fn run(command: LeaderCommand, session: &Session) -> CommandResult {
    match command {
        LeaderCommand::Status => status(session).await,
        LeaderCommand::StepDown { force, wait_timeout } => step_down(force, wait_timeout, session).await,
    }
}

async fn status(session: &Session) -> CommandResult {
    let (leader, others) = schedulers(&session.api()?).await?;
    let status = LeaderStatus::of(leader, others);
    session.output.record(&status, STATUS)?;
    match trouble(status.leader_state, status.lease_expired_seconds) {
        None => Ok(exit::OK),
        Some(trouble) => {
            print_notice(&trouble);
            Ok(exit::FAILURE)
        }
    }
}

impl LeaderStatus {
    fn of(leader: Option<SchedulerInstance>, others: Vec<SchedulerInstance>) -> Self {
        let (standbys, offline) =
            others.into_iter().partition(|scheduler| scheduler.status == SchedulerStatus::Online);
        let lease_expired_seconds = leader.as_ref().and_then(|leader| leader.lease_expired_seconds);
        let leader_state = match (&leader, lease_expired_seconds) {
            (None, _) => LeaderState::None,
            (Some(_), Some(_)) => LeaderState::Expired,
            (Some(_), None) => LeaderState::Live,
        };
        Self { leader_state, lease_expired_seconds, leader, standbys, offline }
    }
}

/// `None` if a scheduler leads.
pub(crate) fn trouble(state: LeaderState, expired_seconds: Option<u64>) -> Option<String> {
    match state {
        LeaderState::Live => None,
        LeaderState::Expired => Some(format!(
            "no scheduler leads: the lease of the last one expired {}s ago, and no scheduler has taken over yet",
            expired_seconds.unwrap_or(0)
        )),
        LeaderState::None => {
            Some("no scheduler leads: no job fires until one is started or takes over".to_owned())
        }
    }
}

async fn step_down(force: bool, wait_timeout: Duration, session: &Session) -> CommandResult {
    let api = session.api()?;
    let path = ["schedulers", "leader", "step-down"];
    let stepped_down: SchedulerInstance = api.post(&path, None, &StepDownRequest { force }).await?;
    let former = process(&stepped_down);
    let Ok(found) = tokio::time::timeout(wait_timeout, next_leader(&api, &stepped_down)).await else {
        return Err(failure(anyhow!(
            "{former} has not been replaced within {wait_timeout:?}; see `schedctl leader status`"
        )));
    };
    let leader = found?;
    if leader.id == stepped_down.id {
        return Err(failure(anyhow!(
            "{former} stepped down and leads again with term {}, because no standby took over",
            or_dash(leader.term)
        )));
    }
    session.output.record(&HandOver { stepped_down, leader }, HAND_OVER)?;
    Ok(exit::OK)
}

async fn next_leader(api: &Api, former: &SchedulerInstance) -> Result<SchedulerInstance, ApiError> {
    loop {
        let (leader, _) = schedulers(api).await?;
        if let Some(leader) = leader.filter(|leader| leader.term > former.term) {
            return Ok(leader);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn schedulers(api: &Api) -> Result<(Option<SchedulerInstance>, Vec<SchedulerInstance>), ApiError> {
    let page: Page<SchedulerInstance> = api.get(&["schedulers"], &()).await?;
    let (mut leaders, others): (Vec<_>, Vec<_>) =
        page.items.into_iter().partition(|scheduler| scheduler.is_leader);
    Ok((leaders.pop(), others))
}

fn processes(schedulers: &[SchedulerInstance]) -> String {
    match schedulers {
        [] => "none".to_owned(),
        schedulers => schedulers.iter().map(process).collect::<Vec<_>>().join(", "),
    }
}

fn process(scheduler: &SchedulerInstance) -> String {
    format!("{} (process {})", crate::output::neutral::line(&scheduler.hostname), scheduler.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(lease_expired_seconds: Option<u64>) -> SchedulerInstance {
        let now = chrono::DateTime::UNIX_EPOCH;
        SchedulerInstance {
            id: uuid::Uuid::nil(),
            hostname: "here".into(),
            pid: 1,
            version: "1.0".into(),
            started_at: now,
            last_heartbeat: now,
            status: match lease_expired_seconds {
                None => SchedulerStatus::Online,
                Some(_) => SchedulerStatus::Offline,
            },
            is_leader: true,
            lease_expired_seconds,
            leader_since: Some(now),
            term: Some(7),
            step_down_requested_at: None,
            clock_offset_seconds: None,
        }
    }

    #[test]
    fn silent_scheduler_is_no_standby() {
        let other = |expired| SchedulerInstance { is_leader: false, term: None, ..scheduler(expired) };
        let status = LeaderStatus::of(Some(scheduler(None)), vec![other(None), other(Some(9))]);
        assert_eq!((status.standbys.len(), status.offline.len()), (1, 1));
        assert_eq!(status.offline[0].status, SchedulerStatus::Offline);
    }

    #[test]
    fn only_a_leader_that_renews_its_lease_leads() {
        for (leader, state, told) in [
            (Some(scheduler(None)), LeaderState::Live, None),
            (
                Some(scheduler(Some(42))),
                LeaderState::Expired,
                Some("expired 42s ago, and no scheduler has taken over yet"),
            ),
            (None, LeaderState::None, Some("no job fires until one is started")),
        ] {
            let status = LeaderStatus::of(leader, Vec::new());
            assert_eq!(status.leader_state, state);
            let said = trouble(status.leader_state, status.lease_expired_seconds);
            match told {
                None => assert_eq!(said, None),
                Some(told) => assert!(said.as_ref().is_some_and(|said| said.contains(told)), "{said:?}"),
            }
        }
    }
}
