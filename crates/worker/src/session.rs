//! A session: one identity of the worker, with its lease and everything that depends on it.
//!
//! A session begins with a registration under a new random id and ends in one of two ways. *In order*: no new claims, running
//! work finishes or is handed back, results are written, and only then heartbeats stop and the registration goes. *Lease lost*:
//! the database said so, or no heartbeat got through for so long that others may soon take over; then all work is killed at
//! once and nothing of it is reported, because it belongs to others; the next session has a new id. Results of attempts that
//! had ended before are still offered to the database: their claim tokens decide.
//!
//! An attempt that runs on although it was told to stop (a native handler that blocks its thread) is never handed back: nothing is
//! told of it, and the registration stays. So its dispatch is recovered when the process has ended and the lease has run out.

pub(crate) mod heartbeat;
pub(crate) mod multi_worker;
pub(crate) mod recovery;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sched_model::domain::ids::WorkerId;
use sched_model::domain::secret::SecretKeys;
use sched_model::running::workers::{self, NewWorker, Predecessor};
use sched_model::{Database, DbError};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{OwnedTask, TaskError, spawn_owned};
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::counters::Seen;
use crate::attempt::live::Board;
use crate::claiming::poller;
use crate::claiming::prefetch::Pace;
use crate::completion::{CompleterHandle, FLUSH_WITHIN};
use crate::config::Config;
use crate::handlers::Handlers;
use crate::session::heartbeat::LeaseState;

/// Longest pause between two tries to register.
const REGISTER_PAUSE: Duration = Duration::from_secs(5);
/// After the drain: how long killed work may take to be gone, beyond the longest grace of a process.
const KILL_WITHIN: Duration = Duration::from_secs(310);
/// How long a poller that died stays dead.
const POLLER_PAUSE: Duration = Duration::from_secs(1);
/// How long unregistering may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// What all sessions of a worker share.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    /// The program's version.
    pub(crate) version: &'static str,
    pub(crate) config: Arc<Config>,
    pub(crate) database: Database,
    pub(crate) handlers: Arc<Handlers>,
    /// What opens secrets, where there is a key file.
    pub(crate) secret_keys: Option<Arc<SecretKeys>>,
    pub(crate) completer: CompleterHandle,
    /// One permit for each slot, held while a handler runs.
    pub(crate) slots: Arc<Semaphore>,
    /// One permit for each dispatch this worker may have to do with at once, held from before its claim until its result is stored.
    pub(crate) places: Arc<Semaphore>,
    /// How far ahead of the slots it claims.
    pub(crate) pace: Arc<Pace>,
    /// Wakes the poller.
    pub(crate) wake: Arc<Notify>,
    /// Asks for a heartbeat now: somebody wants work of ours stopped.
    pub(crate) beat_now: Arc<Notify>,
    pub(crate) seen: Arc<Seen>,
    /// What attempts tell while they run.
    pub(crate) board: Arc<Board>,
    /// Where their spans go.
    pub(crate) traces: Traces,
    /// Where dispatches that failed for good are reported; nowhere unless the operator asks for it.
    pub(crate) tracker: Tracker,
}

/// One identity.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) worker: Worker,
    pub(crate) id: WorkerId,
    /// When the registration was sent, which counts as the first heartbeat.
    pub(crate) registered_at: Instant,
    /// Attempts in progress.
    pub(crate) attempts: TaskTracker,
    /// No more claims.
    pub(crate) stop_claiming: CancellationToken,
    /// Whether an operator asks the worker to claim nothing for now, as the heartbeats have it.
    pub(crate) draining: Arc<watch::Sender<bool>>,
    /// Running work is to be stopped softly and handed back.
    pub(crate) hand_back: CancellationToken,
    /// Running work is to be killed and forgotten.
    pub(crate) kill: CancellationToken,
    /// Until when the lease may be trusted, as the heartbeats have it: nothing is begun later, even before they notice.
    pub(crate) trusted_until: Arc<watch::Sender<Instant>>,
    /// Says that nobody leads, and has not for long.
    pub(crate) nobody_leads: Arc<Notify>,
    /// How many attempts of it nobody was told of: they are left to be recovered.
    pub(crate) left: Arc<AtomicUsize>,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As asked.
    Stopped,
    /// The lease was lost.
    LeaseLost,
    /// Work that cannot be killed runs on, so nothing may be given to others before the process has ended.
    RunsOn(UnfinishedWork),
}

/// The worker has not ended in order: others have to do its work again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnfinishedWork {
    /// Others may have it soon.
    #[error(
        "native handlers went on after the lease was lost and looked neither at their cancellation nor came to an await; the process \
         ends so that their work is not done twice at once"
    )]
    LeaseLost,
    /// It was to be handed back.
    #[error(
        "native handlers went on after the worker was told to stop and looked neither at their cancellation nor came to an await; the \
         process ends with them, and their work is given to others when its lease has run out"
    )]
    Stopped,
    /// It was told to stop at once, or could not store what had ended.
    #[error(
        "{attempts} attempts were killed or could not be stored; their dispatches are left to be recovered"
    )]
    Left {
        /// How many.
        attempts: usize,
    },
}

impl Worker {
    /// Runs one session after the other until told to stop.
    ///
    /// # Errors
    /// When only the end of the process ends its work in time, or when it was told to stop and has left work to be recovered.
    pub(crate) async fn run(self, shutdown: Shutdown) -> Result<(), UnfinishedWork> {
        let mut before = None;
        while !shutdown.soft.is_cancelled() {
            let Some(session) = self.begin(&shutdown.soft, before).await else { return Ok(()) };
            let (id, draining, left) = (session.id, session.draining.clone(), session.left.clone());
            self.seen.session.send_replace(Some(id));
            let end = session.run(&shutdown).await;
            self.seen.session.send_replace(None);
            match end {
                End::RunsOn(work) => return Err(work),
                End::Stopped => return ended_with(&left),
                End::LeaseLost => {}
            }
            before = Some(Predecessor { worker_id: id, was_draining: *draining.borrow() });
            tracing::error!(worker.id = %id, "The lease of the worker was lost; its work was killed and belongs to others now.");
            metrics::counter!("sched_worker_leases_lost_total").increment(1);
            if shutdown.soft.is_cancelled() {
                return ended_with(&left);
            }
        }
        Ok(())
    }

    /// Registers under a new identity, however long that takes. What an operator asked of the one before holds for it, too.
    async fn begin(&self, stop: &CancellationToken, mut before: Option<Predecessor>) -> Option<Session> {
        let mut pause = Duration::from_millis(200);
        loop {
            let id = WorkerId(uuid::Uuid::new_v4());
            match self.register(id, before).await {
                // What it claimed would be killed before it ran.
                Ok((registered_at, was_draining))
                    if monotonic() >= self.config.lease.trusted_until(registered_at) =>
                {
                    tracing::warn!(worker.id = %id, "Registering took longer than the lease is trusted; registering anew.");
                    before = Some(Predecessor { worker_id: id, was_draining });
                }
                Ok((registered_at, is_draining)) => {
                    tracing::info!(worker.id = %id, is_draining, queues = ?self.config.queues, concurrency = self.config.concurrency, "Registered.");
                    return Some(Session {
                        worker: self.clone(),
                        id,
                        registered_at,
                        attempts: TaskTracker::new(),
                        stop_claiming: CancellationToken::new(),
                        draining: Arc::new(watch::Sender::new(is_draining)),
                        hand_back: CancellationToken::new(),
                        kill: CancellationToken::new(),
                        trusted_until: Arc::new(watch::Sender::new(
                            self.config.lease.trusted_until(registered_at),
                        )),
                        nobody_leads: Arc::default(),
                        left: Arc::default(),
                    });
                }
                Err(error) => tracing::warn!(
                    error = error.with_causes(),
                    "Registering the worker failed; trying again."
                ),
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(REGISTER_PAUSE),
            }
        }
    }

    /// Returns when the registration was sent, and whether an operator wants the worker to drain.
    async fn register(
        &self,
        worker_id: WorkerId,
        before: Option<Predecessor>,
    ) -> Result<(Instant, bool), DbError> {
        let mut conn = self.database.conn().await?;
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
        Ok((sent_at, workers::register(&mut conn, &worker, before).await?))
    }
}

/// Gives results up that find no room, when a worker is told to stop: a while after everything that ran has ended or was killed.
/// Then the database has been away for long. A worker that goes on keeps them however long that is.
async fn give_up_results(stop: &CancellationToken, kill: &CancellationToken, completer: &CompleterHandle) {
    stop.cancelled().await;
    kill.cancelled().await;
    tokio::time::sleep(FLUSH_WITHIN).await;
    completer.give_up();
}

impl Session {
    /// Runs to its end, which comes in time once the worker is told to stop.
    async fn run(self, shutdown: &Shutdown) -> End {
        let (kill, completer) = (self.kill.clone(), self.worker.completer.clone());
        let bounded = async {
            give_up_results(&shutdown.soft, &kill, &completer).await;
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
        let reaper = spawn_owned("reaper", recovery::run(self.clone()));
        let mut polls = Some(self.start_poller());
        let lost = async {
            // The sender lives in the heartbeat task; if that is gone, so is the lease.
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
        // The poller is never cut off: a claim under way takes effect, and its dispatches must be known here.
        self.stop_claiming.cancel();
        let finish = self.finish(polls, &shutdown.hard);
        let is_lost = if is_lost {
            if !self.kills_all().await {
                return End::RunsOn(UnfinishedWork::LeaseLost);
            }
            finish.await;
            true
        } else {
            tokio::select! {
                () = finish => false,
                () = &mut lost => {
                    if !self.kills_all().await {
                        return End::RunsOn(UnfinishedWork::LeaseLost);
                    }
                    self.attempts.close();
                    self.attempts.wait().await;
                    true
                }
            }
        };
        let may_run_on = !is_lost && self.left.load(Ordering::Relaxed) > 0;
        if shutdown.soft.is_cancelled() {
            let flushed = self.worker.completer.flushed();
            tokio::pin!(flushed);
            let unwritten = tokio::select! {
                unwritten = &mut flushed => unwritten,
                () = &mut lost, if may_run_on => {
                    if !self.kills_all().await {
                        return End::RunsOn(UnfinishedWork::LeaseLost);
                    }
                    flushed.await
                }
            };
            self.left.fetch_add(unwritten, Ordering::Relaxed);
        }
        if may_run_on && !self.has_all_ended().await {
            // Still registered: the lease holds for a while after the last heartbeat, and with it the claims.
            return End::RunsOn(UnfinishedWork::Stopped);
        }
        drop((beats, reaper));
        self.leave().await;
        if is_lost { End::LeaseLost } else { End::Stopped }
    }

    /// Kills the work of a lost lease; whether nothing is left that runs on inside this process. Others may begin the work once
    /// the margin is over, so there is no time for an orderly end if something is.
    async fn kills_all(&self) -> bool {
        self.kill.cancel();
        self.has_all_ended().await
    }

    /// Whether nothing that was killed or given up runs on inside this process.
    async fn has_all_ended(&self) -> bool {
        self.worker.handlers.ended_within(self.worker.config.lease.margin() / 2).await
    }

    /// Counts an attempt that nobody is told of.
    pub(crate) fn count_left(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    fn start_poller(&self) -> OwnedTask<()> {
        spawn_owned("poller", poller::run(self.clone()))
    }

    /// A poller that ended because it was told to stays ended; one that died is replaced, never left dead.
    async fn after_poller(&self, ended: Result<(), TaskError>) -> Option<OwnedTask<()>> {
        let error = ended.err()?;
        tracing::error!(error = &error as &dyn std::error::Error, "The poller died; starting it again.");
        tokio::time::sleep(POLLER_PAUSE).await;
        Some(self.start_poller())
    }

    /// Waits for the poller to end, then for the work to finish, to be handed back, or to be killed.
    async fn finish(&self, polls: Option<OwnedTask<()>>, hard: &CancellationToken) {
        if let Some(polls) = polls
            && let Err(error) = polls.await
        {
            tracing::error!(error = &error as &dyn std::error::Error, "The poller did not end in order.");
        }
        self.attempts.close();
        let running = self.worker.seen.running.count();
        let drain = self.worker.config.drain_timeout;
        tracing::info!(running, drain_timeout = ?drain, "Draining: no new claims, running work may finish.");
        tokio::select! {
            () = self.attempts.wait() => return,
            () = hard.cancelled() => {
                self.kill.cancel();
                return self.attempts.wait().await;
            }
            () = tokio::time::sleep(drain) => {}
        }
        tracing::warn!(
            running = self.worker.seen.running.count(),
            "Running work did not finish in time and is handed back."
        );
        self.hand_back.cancel();
        tokio::select! {
            () = self.attempts.wait() => return,
            () = hard.cancelled() => {}
            () = tokio::time::sleep(KILL_WITHIN) => {}
        }
        self.kill.cancel();
        self.attempts.wait().await;
    }

    /// Removes the registration; what was killed without a report is recovered at once that way.
    async fn leave(&self) {
        let left = tokio::time::timeout(LEAVE_WITHIN, async {
            let mut conn = self.worker.database.conn().await?;
            workers::unregister(&mut conn, self.id).await
        });
        match left.await {
            Ok(Ok(())) => tracing::info!(worker.id = %self.id, "Unregistered."),
            Ok(Err(error)) => tracing::warn!(
                error = error.with_causes(),
                "Unregistering failed; the lease expires by itself."
            ),
            Err(_elapsed) => tracing::warn!("Unregistering took too long; the lease expires by itself."),
        }
    }
}

/// How a worker that was told to stop has ended, given how many attempts nobody was told of.
fn ended_with(left: &AtomicUsize) -> Result<(), UnfinishedWork> {
    match left.load(Ordering::Relaxed) {
        0 => Ok(()),
        attempts => Err(UnfinishedWork::Left { attempts }),
    }
}

/// The end of a task, if there is one.
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
    use sched_model::DatabaseSettings;

    use super::*;
    use crate::completion::Completer;

    #[tokio::test(start_paused = true)]
    async fn results_are_given_up_a_minute_after_the_kill_by_a_worker_that_stops() {
        let database = Database::new(&DatabaseSettings::new("postgres://nobody@127.0.0.1:1/none", "test"));
        let (_completer, handle) = Completer::new(
            database.unwrap(),
            Arc::new(Seen::new()),
            Arc::default(),
            Arc::new(Semaphore::new(1)),
        );
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let day = Duration::from_secs(24 * 3600);
        kill.cancel();
        let goes_on = tokio::time::timeout(day, give_up_results(&stop, &kill, &handle)).await;
        assert!(goes_on.is_err(), "a worker that lost its lease and goes on keeps its results");
        stop.cancel();
        let second = Duration::from_secs(1);
        let waits = tokio::time::timeout(FLUSH_WITHIN - second, give_up_results(&stop, &kill, &handle)).await;
        assert!(waits.is_err(), "the database may come back");
        tokio::time::timeout(FLUSH_WITHIN + second, give_up_results(&stop, &kill, &handle)).await.unwrap();
    }
}
