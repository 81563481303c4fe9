//! The life of a session: register, heartbeat, claim, drain, leave.
//!
//! A session has a new random id. It ends in one of two ways.
//!
//! - *Cleanly*: the worker stops claiming. Running attempts finish or are released, and their
//!   results are stored. Only then the heartbeats stop and the registration is removed.
//! - *Lease lost*: the database reported it, or no heartbeat succeeded for so long that another
//!   worker may soon take over. The session kills all attempts at once and reports none of them,
//!   because their runs may belong to other workers. Results of attempts that had ended before are
//!   still offered to the database: their claim tokens decide.
//!
//! An attempt that still runs after it was stopped (a native handler that blocks its thread) is
//! never released or reported, and the registration stays. So its run is recovered after the
//! process has ended and the lease has expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sched_model::domain::ids::WorkerId;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{OwnedTask, TaskError, spawn_owned};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::{DbError, NewWorker, Predecessor};
use crate::claiming::poller;
use crate::completion::{CompleterHandle, FLUSH_WITHIN};
use crate::session::heartbeat::{self, LeaseState};
use crate::session::trust::LeaseTrust;
use crate::session::{Session, UnfinishedWork, Worker, recovery};

/// Maximum pause between two attempts to register.
const REGISTER_PAUSE: Duration = Duration::from_secs(5);
/// Time for released attempts to end after the drain, beyond the longest grace of a process.
const KILL_WITHIN: Duration = Duration::from_secs(310);
const POLLER_PAUSE: Duration = Duration::from_secs(1);
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped,
    LeaseLost,
    /// Attempts that cannot be killed. The process must end before their runs may start elsewhere.
    StillRuns(UnfinishedWork),
}

impl Worker {
    /// One session after another until `shutdown`. The error: only the end of the process ends its
    /// attempts in time, or runs were left to recovery.
    pub(crate) async fn run(self, shutdown: Shutdown) -> Result<(), UnfinishedWork> {
        let mut before = None;
        while !shutdown.soft.is_cancelled() {
            let Some(session) = self.begin(&shutdown.soft, before).await else { return Ok(()) };
            let (id, draining, left) = (session.id, session.draining.clone(), session.left.clone());
            self.counters.session.send_replace(Some(id));
            let end = session.run(&shutdown).await;
            self.counters.session.send_replace(None);
            match end {
                End::StillRuns(work) => return Err(work),
                End::Stopped => return ended_with(&left),
                End::LeaseLost => {}
            }
            before = Some(Predecessor { worker_id: id, was_draining: *draining.borrow() });
            tracing::error!(worker.id = %id, "lease lost; killed all attempts, and other workers may start their runs");
            metrics::counter!("sched_worker_leases_lost_total").increment(1);
            if shutdown.soft.is_cancelled() {
                return ended_with(&left);
            }
        }
        Ok(())
    }

    /// Registers under a new identity and retries without limit. The drain request of the previous
    /// identity carries over.
    async fn begin(&self, stop: &CancellationToken, mut before: Option<Predecessor>) -> Option<Session> {
        let mut pause = Duration::from_millis(200);
        loop {
            let id = WorkerId(uuid::Uuid::new_v4());
            match self.register(id, before).await {
                // Its claims would be killed before they run.
                Ok((registered_at, was_draining))
                    if monotonic() >= self.config.lease.trusted_until(registered_at) =>
                {
                    tracing::warn!(worker.id = %id, "registration took longer than the trust in the lease; registering again");
                    before = Some(Predecessor { worker_id: id, was_draining });
                }
                Ok((registered_at, is_draining)) => {
                    tracing::info!(worker.id = %id, is_draining, queues = ?self.config.queues, concurrency = self.config.concurrency, "registered");
                    return Some(Session {
                        worker: self.clone(),
                        id,
                        attempts: TaskTracker::new(),
                        stop_claiming: CancellationToken::new(),
                        draining: Arc::new(watch::Sender::new(is_draining)),
                        release: CancellationToken::new(),
                        kill: CancellationToken::new(),
                        trust: Arc::new(watch::Sender::new(LeaseTrust::begin(&self.config, registered_at))),
                        no_leader: Arc::default(),
                        left: Arc::default(),
                    });
                }
                Err(error) => tracing::warn!(error = error.with_causes(), "failed to register; retrying"),
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(REGISTER_PAUSE),
            }
        }
    }

    /// Returns the instant before the request, and whether the worker has to drain.
    async fn register(
        &self,
        worker_id: WorkerId,
        before: Option<Predecessor>,
    ) -> Result<(Instant, bool), DbError> {
        let worker = NewWorker {
            worker_id,
            hostname: hostname(),
            platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            process_id: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            version: self.version.to_owned(),
            queues: self.config.queues.clone(),
            concurrency: i32::try_from(self.config.concurrency).unwrap_or(i32::MAX),
            lease_ms: i32::try_from(self.config.lease.duration().as_millis()).unwrap_or(i32::MAX),
        };
        let sent_at = monotonic();
        Ok((sent_at, self.backend.register(&worker, before).await?))
    }
}

/// Drops results that find no room when the worker stops: [`FLUSH_WITHIN`] after all attempts have
/// ended or were killed. A worker that does not stop keeps results without limit.
async fn drop_results_after_stop(
    stop: &CancellationToken,
    kill: &CancellationToken,
    completer: &CompleterHandle,
) {
    stop.cancelled().await;
    kill.cancelled().await;
    tokio::time::sleep(FLUSH_WITHIN).await;
    completer.give_up();
}

impl Session {
    /// The time that stopping takes is bounded.
    async fn run(self, shutdown: &Shutdown) -> End {
        let (kill, completer) = (self.kill.clone(), self.worker.completer.clone());
        let bounded = async {
            drop_results_after_stop(&shutdown.soft, &kill, &completer).await;
            std::future::pending().await
        };
        tokio::select! {
            end = self.until_it_ends(shutdown) => end,
            never = bounded => never,
        }
    }

    async fn until_it_ends(self, shutdown: &Shutdown) -> End {
        let (lease_sender, mut lease) = watch::channel(LeaseState::Held);
        let beats = spawn_owned("heartbeat", heartbeat::run(self.clone(), lease_sender));
        let recovery = spawn_owned("recovery", recovery::run(self.clone()));
        let mut polls = Some(self.start_poller());
        let lost = async {
            // Without the heartbeat task, which owns the sender, the lease is lost.
            let _ = lease.wait_for(|state| *state == LeaseState::Lost).await;
        };
        tokio::pin!(lost);
        let is_lost = loop {
            tokio::select! {
                () = &mut lost => break true,
                () = shutdown.soft.cancelled() => break false,
                ended = ended(&mut polls) => polls = self.after_poller(ended).await,
            }
        };
        // The poller is never aborted: a claim in flight takes effect, and the session must know its
        // runs.
        self.stop_claiming.cancel();
        let finish = self.finish(polls, &shutdown.hard);
        let is_lost = if is_lost {
            if !self.kill_all().await {
                return End::StillRuns(UnfinishedWork::LeaseLost);
            }
            finish.await;
            true
        } else {
            tokio::select! {
                () = finish => false,
                () = &mut lost => {
                    if !self.kill_all().await {
                        return End::StillRuns(UnfinishedWork::LeaseLost);
                    }
                    self.attempts.close();
                    self.attempts.wait().await;
                    true
                }
            }
        };
        let may_still_run = !is_lost && self.left.load(Ordering::Relaxed) > 0;
        if shutdown.soft.is_cancelled() {
            let flushed = self.worker.completer.flushed();
            tokio::pin!(flushed);
            let unwritten = tokio::select! {
                unwritten = &mut flushed => unwritten,
                () = &mut lost, if may_still_run => {
                    if !self.kill_all().await {
                        return End::StillRuns(UnfinishedWork::LeaseLost);
                    }
                    flushed.await
                }
            };
            self.left.fetch_add(unwritten, Ordering::Relaxed);
        }
        if may_still_run && !self.all_have_ended().await {
            // The lease, and with it the claims, hold for a while after the last heartbeat.
            return End::StillRuns(UnfinishedWork::Stopped);
        }
        drop((beats, recovery));
        self.leave().await;
        if is_lost { End::LeaseLost } else { End::Stopped }
    }

    /// Kills all attempts after the lease was lost; returns whether none still runs inside this
    /// process. Other workers may start the runs after the margin, so there is no time for an
    /// orderly end.
    async fn kill_all(&self) -> bool {
        self.kill.cancel();
        self.all_have_ended().await
    }

    /// Whether no killed or abandoned attempt still runs inside this process.
    async fn all_have_ended(&self) -> bool {
        self.worker.handlers.ended_within(self.worker.config.lease.margin() / 2).await
    }

    fn start_poller(&self) -> OwnedTask<()> {
        spawn_owned("poller", poller::run(self.clone()))
    }

    /// Replaces a poller that died. A poller that was stopped stays stopped.
    async fn after_poller(&self, ended: Result<(), TaskError>) -> Option<OwnedTask<()>> {
        let error = ended.err()?;
        tracing::error!(error = &error as &dyn std::error::Error, "poller died; restarting it");
        tokio::time::sleep(POLLER_PAUSE).await;
        Some(self.start_poller())
    }

    /// Waits for the end of the poller, then of the attempts: they finish, are released, or are
    /// killed.
    async fn finish(&self, polls: Option<OwnedTask<()>>, hard: &CancellationToken) {
        if let Some(polls) = polls
            && let Err(error) = polls.await
        {
            tracing::error!(error = &error as &dyn std::error::Error, "poller did not end cleanly");
        }
        self.attempts.close();
        let running = self.worker.counters.running.count();
        let drain = self.worker.config.drain_timeout;
        tracing::info!(running, drain_timeout = ?drain, "draining: no new claims, running attempts may finish");
        tokio::select! {
            () = self.attempts.wait() => return,
            () = hard.cancelled() => {
                self.kill.cancel();
                return self.attempts.wait().await;
            }
            () = tokio::time::sleep(drain) => {}
        }
        tracing::warn!(
            running = self.worker.counters.running.count(),
            "running attempts did not finish in time; releasing them"
        );
        self.release.cancel();
        tokio::select! {
            () = self.attempts.wait() => return,
            () = hard.cancelled() => {}
            () = tokio::time::sleep(KILL_WITHIN) => {}
        }
        self.kill.cancel();
        self.attempts.wait().await;
    }

    /// Removes the registration, so that attempts that were killed without a report are recovered
    /// at once.
    async fn leave(&self) {
        let left = tokio::time::timeout(LEAVE_WITHIN, self.worker.backend.leave(self.id));
        match left.await {
            Ok(Ok(())) => tracing::info!(worker.id = %self.id, "unregistered"),
            Ok(Err(error)) => {
                tracing::warn!(error = error.with_causes(), "failed to unregister; the lease expires instead")
            }
            Err(_elapsed) => tracing::warn!("unregistering took too long; the lease expires instead"),
        }
    }
}

/// `left` is the number of attempts without a report.
fn ended_with(left: &AtomicUsize) -> Result<(), UnfinishedWork> {
    match left.load(Ordering::Relaxed) {
        0 => Ok(()),
        attempts => Err(UnfinishedWork::Left { attempts }),
    }
}

/// Never returns without a task.
async fn ended(task: &mut Option<OwnedTask<()>>) -> Result<(), TaskError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

fn hostname() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;
    use crate::attempt::counters::Counters;
    use crate::backend::Backend;
    use crate::completion::Completer;

    #[tokio::test(start_paused = true)]
    async fn stopping_worker_drops_results_a_minute_after_the_kill() {
        let (_completer, handle) = Completer::new(
            Backend::unreachable(),
            Arc::new(Counters::new()),
            Arc::default(),
            Arc::new(Semaphore::new(1)),
        );
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let day = Duration::from_secs(24 * 3600);
        kill.cancel();
        let continues = tokio::time::timeout(day, drop_results_after_stop(&stop, &kill, &handle)).await;
        assert!(continues.is_err(), "a worker that continues after a lost lease keeps its results");
        stop.cancel();
        let second = Duration::from_secs(1);
        let waits =
            tokio::time::timeout(FLUSH_WITHIN - second, drop_results_after_stop(&stop, &kill, &handle)).await;
        assert!(waits.is_err(), "the database may recover");
        tokio::time::timeout(FLUSH_WITHIN + second, drop_results_after_stop(&stop, &kill, &handle))
            .await
            .unwrap();
    }
}
