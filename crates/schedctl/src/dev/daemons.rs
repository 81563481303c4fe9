//! All daemons of an installation: started together, stopped in stages. A daemon that ends during
//! the start fails the start; later it is restarted, after a pause that grows with consecutive
//! failures.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use sched_runtime::driver::Backoff;
use sched_runtime::exit::describe;
use sched_runtime::monotonic_clock::monotonic;
use tokio_util::sync::CancellationToken;

use super::daemon::{Running, Spec, StartError, describe_exit};
use super::log::Log;
use crate::local_install::ProcessEntry;

/// A daemon that ran this long before it failed has its failure count reset.
const SOUND_AFTER: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// First: workers need the others to finish attempts.
    Workers,
    /// Then no new runs are dispatched.
    Scheduler,
    /// Last, so that the installation can be queried until then.
    Api,
}

impl Stage {
    const ORDER: [Self; 3] = [Self::Workers, Self::Scheduler, Self::Api];

    /// The limit of a worker for its running attempts is lower.
    const fn limit(self) -> Duration {
        match self {
            Self::Workers => Duration::from_secs(60),
            Self::Scheduler | Self::Api => Duration::from_secs(15),
        }
    }
}

#[derive(Debug)]
struct Daemon {
    spec: Spec,
    stage: Stage,
    failures: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Running(Box<Running>),
    /// Failed; restarted at this time.
    Waiting(Instant),
}

impl Daemon {
    fn is_running(&mut self) -> bool {
        match &mut self.state {
            State::Running(running) => matches!(running.ended(), Ok(None)),
            State::Waiting(_) => false,
        }
    }

    fn signal(&self, how: impl FnOnce(&Running)) {
        if let State::Running(running) = &self.state {
            how(running);
        }
    }
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) status: Option<ExitStatus>,
}

#[derive(Debug)]
pub(super) struct Daemons {
    log: Log,
    all: Vec<Daemon>,
    backoff: Backoff,
}

impl Daemons {
    pub(super) fn new(log: Log) -> Self {
        Self { log, all: Vec::new(), backoff: Backoff::default() }
    }

    /// Must be called on the main thread.
    pub(super) fn start(&mut self, spec: Spec, stage: Stage) -> Result<(), StartError> {
        let running = Running::start(&spec, self.log)?;
        self.all.push(Daemon { spec, stage, failures: 0, state: State::Running(Box::new(running)) });
        Ok(())
    }

    /// Entries of the running daemons, for the description of the directory.
    pub(super) fn entries(&self) -> Vec<ProcessEntry> {
        let running = self.all.iter().filter_map(|daemon| match &daemon.state {
            State::Running(running) => Some(ProcessEntry {
                name: daemon.spec.name.clone(),
                pid: running.pid(),
                health_url: Some(running.health_url()),
            }),
            State::Waiting(_) => None,
        });
        running.collect()
    }

    /// Also schedules the restart. Must be called on the main thread.
    pub(super) async fn notice_ends(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        for daemon in &mut self.all {
            let State::Running(running) = &mut daemon.state else { continue };
            let status = match running.ended() {
                Ok(None) => continue,
                Ok(Some(status)) => Some(status),
                // A child without a readable status no longer exists.
                Err(_) => None,
            };
            daemon.failures = if running.age() > SOUND_AFTER { 1 } else { daemon.failures.saturating_add(1) };
            let pause = self.backoff.delay(daemon.failures, rand::rng().random());
            let state = std::mem::replace(&mut daemon.state, State::Waiting(monotonic() + pause));
            if let State::Running(running) = state {
                running.bury().await;
            }
            ended.push(Ended { name: daemon.spec.name.clone(), status });
        }
        ended
    }

    /// Restarts daemons whose pause is over; returns whether there were any. Must be called on the
    /// main thread.
    pub(super) fn restart_due(&mut self) -> bool {
        let mut any = false;
        for daemon in &mut self.all {
            let State::Waiting(until) = daemon.state else { continue };
            if monotonic() < until {
                continue;
            }
            match Running::start(&daemon.spec, self.log) {
                Ok(running) => {
                    self.log.print(&format!("Restarted {} (process {}).", daemon.spec.name, running.pid()));
                    daemon.state = State::Running(Box::new(running));
                    any = true;
                }
                Err(error) => {
                    daemon.failures = daemon.failures.saturating_add(1);
                    let pause = self.backoff.delay(daemon.failures, rand::rng().random());
                    daemon.state = State::Waiting(monotonic() + pause);
                    let text = describe(&error);
                    self.log.print(&format!("Could not restart {}: {text}.", daemon.spec.name));
                }
            }
        }
        any
    }

    /// A daemon that exceeds its time limit is killed; once `hard` is cancelled, all are.
    pub(super) async fn stop(&mut self, hard: &CancellationToken) {
        for stage in Stage::ORDER {
            self.stop_stage(stage, hard).await;
        }
    }

    async fn stop_stage(&mut self, stage: Stage, hard: &CancellationToken) {
        let (mut stopping, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.all).into_iter().partition(|daemon| daemon.stage == stage);
        self.all = rest;
        for daemon in &mut stopping {
            if daemon.is_running() {
                self.log.print(&format!("Stopping {}.", daemon.spec.name));
                daemon.signal(Running::ask_to_stop);
            }
        }
        let began = monotonic();
        let mut killed = false;
        while !stopping.is_empty() {
            let mut left = Vec::new();
            for mut daemon in stopping {
                if daemon.is_running() {
                    left.push(daemon);
                } else if let State::Running(running) = daemon.state {
                    self.log_end(&daemon.spec.name, *running).await;
                }
            }
            stopping = left;
            if !killed && (hard.is_cancelled() || began.elapsed() > stage.limit()) {
                killed = true;
                for daemon in &stopping {
                    self.log.print(&format!("Killing {}.", daemon.spec.name));
                    daemon.signal(Running::kill);
                }
            }
            if !stopping.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    async fn log_end(&self, name: &str, mut running: Running) {
        if let Ok(Some(status)) = running.ended()
            && !status.success()
        {
            self.log.print(&format!("{name} stopped with {}.", describe_exit(status)));
        }
        running.bury().await;
    }
}

#[cfg(test)]
mod tests;
