//! Health and status, read from watch channels and never from the database.

use std::sync::Arc;
use std::time::Duration;

use sched_model::cluster::health::{JobCounts, NextDue};
use sched_model::dispatching::tick::Outlook;
use sched_model::domain::ids::InstanceId;
use sched_runtime::health_endpoint::{Liveness, Readiness, StatusSource};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::leader_scope::{Board, since_last_dispatch};
use crate::leadership::{Role, Vitals};
use crate::tasks::installation_metrics::{JobsSeen, MOST_COUNTED};

/// A leader is not ready after this time since its latest successful dispatch.
const UNREADY_AFTER: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    WaitingForDatabase,
    /// Registered, as leader or standby.
    Running,
    Stopping,
}

#[derive(Debug)]
pub(crate) struct SchedulerStatus {
    pub(crate) instance: InstanceId,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) role: watch::Receiver<Role>,
    pub(crate) vitals: watch::Receiver<Vitals>,
    pub(crate) board: Arc<Board>,
    /// Of the latest tick, of any term.
    pub(crate) outlook: watch::Receiver<Option<Outlook>>,
    /// Of the latest pass of the metrics of the installation, of any term.
    pub(crate) jobs: watch::Receiver<Option<JobsSeen>>,
}

impl StatusSource for SchedulerStatus {
    fn ready(&self) -> Readiness {
        match *self.phase.borrow() {
            Phase::WaitingForDatabase => {
                return Readiness::NotReady("the database cannot be used yet".into());
            }
            Phase::Stopping => return Readiness::NotReady("the scheduler is stopping".into()),
            Phase::Running => {}
        }
        for task in self.board.borrow().iter().filter(|task| task.name == "dispatch") {
            let status = task.status.borrow();
            if status.consecutive_failures > 0 && status.since_success().is_none_or(|age| age > UNREADY_AFTER)
            {
                return Readiness::NotReady("dispatching does not succeed; see /status".into());
            }
        }
        if is_in_doubt(*self.role.borrow(), &self.vitals.borrow()) {
            return Readiness::NotReady(
                "the lease was not renewed in time; another scheduler may lead".into(),
            );
        }
        Readiness::Ready
    }

    fn live(&self) -> Liveness {
        Liveness::Alive
    }

    fn status(&self) -> Value {
        let role = *self.role.borrow();
        let vitals = *self.vitals.borrow();
        let outlook = self.outlook.borrow().filter(|_| role.term().is_some());
        let jobs = self.jobs.borrow().clone().filter(|_| role.term().is_some());
        let last_tick = since_last_dispatch(&self.board.borrow());
        let tasks: Vec<Value> = self.board.borrow().iter().map(|task| json!(*task.status.borrow())).collect();
        json!({
            "instance_id": self.instance,
            // A process that was frozen may answer this before its election task notices the delay.
            "role": match role {
                Role::Leader(_) if is_in_doubt(role, &vitals) => "unsure",
                Role::Leader(_) => "leader",
                Role::Standby => "standby",
            },
            "term": role.term(),
            "leader_since": vitals.leader_since,
            "trust_left_ms": vitals.trust_left().map(milliseconds),
            "last_heartbeat_ms_ago": vitals.since_heartbeat().map(milliseconds),
            "round_trip_ms": vitals.round_trip.map(milliseconds),
            "clock_offset_ms": vitals.clock_offset.map(|offset| offset.as_seconds_f64() * 1000.0),
            "last_tick_ms_ago": last_tick.map(milliseconds),
            "next_due": outlook.and_then(|outlook| outlook.next_due),
            "jobs_due": outlook.map(|outlook| outlook.due()),
            "jobs": jobs.as_ref().map(counted),
            "next_due_jobs": jobs.as_ref().map(next_due),
            "next_due_jobs_read_ms_ago": jobs.as_ref().map(|seen| milliseconds(seen.read.elapsed())),
            "database": *self.phase.borrow() != Phase::WaitingForDatabase,
            "tasks": tasks,
        })
    }
}

fn counted(seen: &JobsSeen) -> Value {
    let JobCounts { enabled, paused, disabled, quarantined } = seen.counts;
    json!({
        "enabled": enabled,
        "paused": paused,
        "disabled": disabled,
        "quarantined": quarantined,
        "is_at_least": enabled + paused + disabled + quarantined >= MOST_COUNTED,
        "counted_ms_ago": milliseconds(seen.counted.elapsed()),
    })
}

fn next_due(seen: &JobsSeen) -> Vec<Value> {
    let shown = |due: &NextDue| json!({"tenant": due.tenant, "job": due.job, "due_at": due.due_at, "is_paused": due.is_paused});
    seen.next_due.iter().map(shown).collect()
}

/// The process led and may no longer trust that it does.
fn is_in_doubt(role: Role, vitals: &Vitals) -> bool {
    role.term().is_some() && vitals.trust_left().is_some_and(|left| left.is_zero())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use sched_model::domain::ids::Term;
    use sched_runtime::monotonic_clock::monotonic;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_leader_says_that_it_leads_only_while_it_may_trust_that() {
        let now = monotonic();
        let (later, over) = (now.checked_add(Duration::from_secs(600)), Some(now));
        for (role, trusted_until, word, is_ready) in [
            (Role::Leader(Term(7)), later, "leader", true),
            (Role::Leader(Term(7)), over, "unsure", false),
            (Role::Standby, None, "standby", true),
        ] {
            let status = SchedulerStatus {
                instance: InstanceId(Uuid::nil()),
                phase: watch::channel(Phase::Running).1,
                role: watch::channel(role).1,
                vitals: watch::channel(Vitals { trusted_until, ..Vitals::default() }).1,
                board: Arc::new(watch::channel(Vec::new()).0),
                outlook: watch::channel(None).1,
                jobs: watch::channel(None).1,
            };
            assert_eq!(status.status()["role"], word);
            assert_eq!(status.ready() == Readiness::Ready, is_ready, "{word}");
        }
    }
}
