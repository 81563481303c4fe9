//! Runs the leader's tasks for exactly as long as we lead.
//!
//! Watches the [`Role`]: when a term begins it starts the tasks with that term, and when it ends it stops them. A task that
//! is in the middle of a transaction may finish it: the transaction proves the term itself and is refused if that is over.
//! Who wants to wake a task or see how it fares looks at the [`Board`]. It is empty once the tasks have stopped, which is what a
//! leader that resigns waits for.

use std::time::Duration;

use sched_model::domain::ids::Term;
use sched_runtime::driver::{Activation, Driver, TaskStatus, Wake};
use sched_runtime::tasks::{BoxError, TaskGroup};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::leadership::Role;

/// How long the tasks of a term may take to stop; their statements are bounded by the same order of time.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The tasks of the present term, until they have stopped.
pub type Board = watch::Sender<Vec<Running>>;

/// One started task: how to wake it and how it fares.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its name.
    pub name: &'static str,
    /// Wakes it.
    pub wake: Wake,
    /// How it fares.
    pub status: watch::Receiver<TaskStatus>,
}

/// The tasks of one term while they are being started.
#[derive(Debug)]
pub struct Starting {
    group: TaskGroup,
    running: Vec<Running>,
}

impl Starting {
    /// Cancelled when the term ends: a task with long runs ends them at the next occasion.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.group.token()
    }

    /// Starts `task`, to run at least every `period`.
    pub fn start<A: Activation + 'static>(&mut self, task: A, period: Duration) {
        let name = task.name();
        let driver = Driver::new(task, period);
        self.running.push(Running { name, wake: driver.wake_handle(), status: driver.status() });
        let token = self.group.token();
        self.group.spawn(name, driver.run(token));
    }
}

/// Starts the tasks of each term with `start` and stops them when it ends, until `stop`.
///
/// # Errors
/// When a task ends by itself, which none does.
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
        stopped?;
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

/// How long ago dispatching last succeeded; `None` if it has not in this term.
#[must_use]
pub fn since_last_dispatch(running: &[Running]) -> Option<Duration> {
    running.iter().find(|task| task.name == "dispatch").and_then(|task| task.status.borrow().since_success())
}
