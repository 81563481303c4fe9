//! Runs the leader's tasks exactly as long as this process leads.
//!
//! The scope starts the tasks when a term begins and stops them when it ends. A task inside a
//! transaction may finish: the transaction proves the term itself and is rejected if the term is
//! over. A task that waits for a silent database is cancelled after a limit, with its connection.
//! Statements it already sent are bound to the term in the same way, and the process can lead
//! again. The [`Board`] is empty once all tasks have stopped; a resigning leader waits for that.

use std::time::Duration;

use sched_model::domain::ids::Term;
use sched_runtime::driver::{Activation, Driver, TaskStatus, Wake};
use sched_runtime::tasks::{BoxError, TaskGroup};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::role::Role;

/// Time limit for the tasks of a term to stop. Statements are bounded by the same order of time.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A task that fails for this long is reported; a short outage of the database is over by then.
const FAILING_AFTER: Duration = Duration::from_secs(30);

/// The tasks of the present term, until they have stopped.
pub type Board = watch::Sender<Vec<Running>>;

#[derive(Debug, Clone)]
pub struct Running {
    pub name: &'static str,
    pub wake: Wake,
    pub status: watch::Receiver<TaskStatus>,
}

#[derive(Debug)]
pub struct Starting {
    group: TaskGroup,
    running: Vec<Running>,
}

impl Starting {
    /// Cancelled when the term ends. Long-running tasks check it and stop early.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.group.token()
    }

    /// The task runs at least every `period`.
    pub fn start<A: Activation + 'static>(&mut self, task: A, period: Duration) {
        let name = task.name();
        let driver = Driver::new(task, period);
        self.running.push(Running { name, wake: driver.wake_handle(), status: driver.status() });
        let token = self.group.token();
        self.group.spawn(name, driver.run(token));
    }
}

/// Starts the tasks of each term with `start`, until `stop`. Returns an error if a task ends
/// unexpectedly.
pub async fn run(
    mut role: watch::Receiver<Role>,
    board: std::sync::Arc<Board>,
    start: impl Fn(Term, &mut Starting) + Send,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    while !stop.is_cancelled() {
        let present = *role.borrow_and_update();
        let Some(term) = present.term() else {
            tokio::select! {
                () = stop.cancelled() => break,
                changed = role.changed() => changed?,
            }
            continue;
        };
        let mut starting = Starting { group: TaskGroup::new(), running: Vec::new() };
        start(term, &mut starting);
        board.send_replace(starting.running);
        let ended = lead(&mut starting.group, present, &mut role, &stop).await;
        let stopped = starting.group.stop(STOP_WITHIN).await;
        board.send_replace(Vec::new());
        ended?;
        match stopped {
            Err(error) if error.is_of_slow_tasks() => {
                tracing::warn!(
                    leader.term = term.0,
                    error = &error as &dyn std::error::Error,
                    "Tasks of a term that is over were cut off."
                );
            }
            stopped => stopped?,
        }
    }
    Ok(())
}

async fn lead(
    group: &mut TaskGroup,
    present: Role,
    role: &mut watch::Receiver<Role>,
    stop: &CancellationToken,
) -> Result<(), BoxError> {
    tokio::select! {
        ended = group.run_until(stop) => Ok(ended?),
        changed = role.wait_for(|role| *role != present) => changed.map(|_| ()).map_err(Into::into),
    }
}

/// The tasks that an operator must check because of their long failure, sorted by name.
#[must_use]
pub fn failing_tasks(running: &[Running]) -> Vec<&'static str> {
    let is_failing = |task: &&Running| {
        let failing_for = task.status.borrow().failing_for();
        failing_for.is_some_and(|time| time >= FAILING_AFTER)
    };
    let mut names: Vec<&'static str> = running.iter().filter(is_failing).map(|task| task.name).collect();
    names.sort_unstable();
    names
}

/// `None` before the first dispatch of this term.
#[must_use]
pub fn since_last_dispatch(running: &[Running]) -> Option<Duration> {
    running.iter().find(|task| task.name == "dispatch").and_then(|task| task.status.borrow().since_success())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sched_runtime::driver::Report;
    use sched_runtime::tasks::spawn_owned;
    use tokio::sync::mpsc;

    use super::*;

    struct Hanging {
        term: Term,
        begun: mpsc::UnboundedSender<Term>,
    }

    impl Activation for Hanging {
        fn name(&self) -> &'static str {
            "hanging"
        }

        async fn run_once(&mut self) -> Result<Report, BoxError> {
            self.begun.send(self.term)?;
            std::future::pending().await
        }
    }

    #[test]
    fn tasks_that_fail_for_long_are_named() {
        let task = |name, failing_for| {
            let now = sched_runtime::monotonic_clock::monotonic();
            let status = TaskStatus {
                failing_since: Option::map(failing_for, |seconds| {
                    now.checked_sub(Duration::from_secs(seconds)).unwrap()
                }),
                ..TaskStatus::new(name)
            };
            Running { name, wake: Wake::default(), status: watch::channel(status).1 }
        };
        let tasks = [
            task("retain", Some(31)),
            task("dispatch", Some(5)),
            task("notify", Some(90)),
            task("rezone", None),
        ];
        assert_eq!(failing_tasks(&tasks), ["notify", "retain"]);
        assert!(failing_tasks(&[]).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_hangs_when_its_term_ends_is_cut_off_and_the_next_term_begins() {
        let (role, seen) = watch::channel(Role::Leader(Term(1)));
        let (begun, mut terms) = mpsc::unbounded_channel();
        let (board, stop) = (Arc::new(Board::new(Vec::new())), CancellationToken::new());
        let start = move |term, starting: &mut Starting| {
            starting.start(Hanging { term, begun: begun.clone() }, Duration::from_secs(1));
        };
        let scope = spawn_owned("scope", run(seen, board.clone(), start, stop.clone()));
        assert_eq!(terms.recv().await, Some(Term(1)));
        role.send_replace(Role::Standby);
        board.subscribe().wait_for(Vec::is_empty).await.unwrap();
        role.send_replace(Role::Leader(Term(2)));
        assert_eq!(terms.recv().await, Some(Term(2)));
        stop.cancel();
        scope.await.unwrap().unwrap();
    }
}
