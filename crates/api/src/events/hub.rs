//! The only reader of the event stream in this process. It serves all listeners.
//!
//! While a client listens, the reader polls the database a few times a second, and at once after a
//! notification of a commit. A lost notification delays events by one poll interval. Listeners get
//! events in batches with their range, so a listener notices a gap and reads it from the table. A
//! ring of fixed size holds the batches: a slow listener misses some and delays no other. The
//! reader stores nothing: a process that dies loses nothing.
//!
//! The position of the reader is the last event that it read. Each poll checks that this event
//! still exists. If it is gone, the database was replaced by another one or by an earlier state.
//! The reader then restarts and ends all listeners, so that their clients reconnect and check their
//! positions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_model::events::stream::{self, Event, EventKey, Mark, Running, StreamState, WRITES_WITHIN};
use sched_model::{Conn, DbError, connection::notify};
use sched_runtime::exit::BoxError;
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::database::access::Sessions;

/// Shortest time between two polls (one poll finds all commits in it), and the further wait for a
/// notification.
const PACE: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(250)];
/// While a client follows a single run: it waits for the end, which no notification announces.
const RUN_PACE: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(20)];
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const BATCH: i64 = 256;
/// Size of the ring: at least one second of events, at most about ten megabytes. No batch is empty.
const KEPT: usize = 32;
/// The reader queries the running transactions when the stream is held up for longer. Transactions
/// of this project are shorter.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// Clients and the log report a stream that is held up for longer.
const LOG_AFTER: Duration = Duration::from_secs(5);
/// Added to [`WRITES_WITHIN`] for clock differences.
const MARGIN: Duration = Duration::from_secs(10);
const CHANNELS: &[&str] = &[
    notify::DISPATCH_CHANNEL,
    notify::JOBS_CHANNEL,
    notify::ENDS_CHANNEL,
    notify::LEADER_CHANNEL,
    notify::CANCEL_CHANNEL,
];

/// A section of the stream.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The event before the section.
    pub(crate) after: EventKey,
    /// The last event of the section.
    pub(crate) upto: Mark,
    /// See [`Frontier::epoch`].
    pub(crate) epoch: u64,
    /// The events of all tenants.
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frontier {
    /// The last event that was sent, after all earlier ones.
    pub(crate) mark: Mark,
    pub(crate) server: i64,
    /// Number of database replacements in the life of this process.
    pub(crate) epoch: u64,
    /// Since when the stream has been held up while there may be events.
    pub(crate) held_since: Option<Instant>,
}

impl Frontier {
    /// The time of the hold-up; `None` unless it is long enough to report.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        self.held_since.map(|since| since.elapsed()).filter(|held| *held >= LOG_AFTER)
    }
}

#[derive(Debug)]
pub(crate) struct Hub {
    batches: broadcast::Sender<Arc<Batch>>,
    /// `None` without listeners, and while the position is unknown.
    frontier: watch::Sender<Option<Frontier>>,
    listeners: watch::Sender<usize>,
    /// Listeners that follow a single run.
    run_listeners: watch::Sender<usize>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            batches: broadcast::Sender::new(KEPT),
            frontier: watch::Sender::new(None),
            listeners: watch::Sender::new(0),
            run_listeners: watch::Sender::new(0),
        }
    }
}

/// The reader runs while a subscription exists.
#[derive(Debug)]
pub(crate) struct Listening {
    hub: Arc<Hub>,
    follows_run: bool,
    pub(crate) batches: broadcast::Receiver<Arc<Batch>>,
    pub(crate) frontier: watch::Receiver<Option<Frontier>>,
}

impl Hub {
    /// With `follows_run`, the reader polls more often.
    pub(crate) fn listen(self: &Arc<Self>, follows_run: bool) -> Listening {
        self.listeners.send_modify(|count| *count += 1);
        self.run_listeners.send_modify(|count| *count += usize::from(follows_run));
        Listening {
            hub: self.clone(),
            follows_run,
            batches: self.batches.subscribe(),
            frontier: self.frontier.subscribe(),
        }
    }

    /// The time of the hold-up; `None` unless it is long enough to report.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        self.frontier.borrow().as_ref().and_then(Frontier::held_for)
    }

    pub(crate) fn listeners(&self) -> usize {
        *self.listeners.borrow()
    }

    fn publish(&self, frontier: Option<Frontier>) {
        self.frontier.send_replace(frontier);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hub.listeners.send_modify(|count| *count = count.saturating_sub(1));
        let of_runs = usize::from(self.follows_run);
        self.hub.run_listeners.send_modify(|count| *count = count.saturating_sub(of_runs));
    }
}

pub(crate) struct Reader {
    hub: Arc<Hub>,
    sessions: Sessions,
    /// Transactions that the stream does not wait for.
    ignored: Vec<i64>,
    /// When each running transaction was first seen.
    seen: HashMap<i64, Instant>,
    /// The reader's own connection, while it works.
    conn: Option<Conn>,
    at: Option<(Mark, i64)>,
    epoch: u64,
    held: Delay,
}

impl Reader {
    pub(crate) fn new(hub: Arc<Hub>, sessions: Sessions) -> Self {
        Self {
            hub,
            sessions,
            ignored: Vec::new(),
            seen: HashMap::new(),
            conn: None,
            at: None,
            epoch: 0,
            held: Delay::default(),
        }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), BoxError> {
        let mut listeners = self.hub.listeners.subscribe();
        let (sessions, hint) = (self.sessions.clone(), Notify::new());
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                found = listeners.wait_for(|count| *count > 0) => { found?; }
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                found = listeners.wait_for(|count| *count == 0) => { found?; }
                () = sessions.listen(CHANNELS, |_| hint.notify_one()) => {}
                () = self.read(&hint) => {}
            }
            self.hub.publish(None);
            // The poll may have been cancelled in the middle.
            self.conn = None;
        }
    }

    async fn read(&mut self, hint: &Notify) {
        (self.at, self.held) = (None, Delay::default());
        let mut run_listeners = self.hub.run_listeners.subscribe();
        loop {
            // Registered before the poll, so that a notification during the poll is not lost.
            let notified = hint.notified();
            let follows_run = *run_listeners.borrow_and_update() > 0;
            let [least, most] = if follows_run { RUN_PACE } else { PACE };
            let pause = match self.poll().await {
                Ok(true) => continue,
                Ok(false) => most,
                Err(error) => {
                    self.conn = None;
                    self.held.begin();
                    let frontier = *self.hub.frontier.borrow();
                    let held_since = self.held.since;
                    self.hub.publish(frontier.map(|last| Frontier { held_since, ..last }));
                    tracing::warn!(error = error.with_causes(), "cannot read the event stream; retrying");
                    AGAIN_AFTER
                }
            };
            tokio::time::sleep(least).await;
            tokio::select! {
                () = notified => {}
                // Its sender is the hub, which exists as long as this reader.
                _ = run_listeners.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns whether there are more events.
    async fn poll(&mut self) -> Result<bool, DbError> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.sessions.own().await?,
        };
        let is_full = self.poll_with(&mut conn).await?;
        self.conn = Some(conn);
        Ok(is_full)
    }

    async fn poll_with(&mut self, conn: &mut Conn) -> Result<bool, DbError> {
        let (sessions, ignored) = (&self.sessions, &self.ignored);
        let state = match self.at {
            Some((mark, _)) => {
                let work = async |conn: &mut Conn| stream::read(conn, mark, ignored, BATCH).await;
                sessions.follow_on(conn, "look_at_events", work).await?
            }
            None => {
                let work = async |conn: &mut Conn| stream::state(conn, ignored).await;
                sessions.follow_on(conn, "look_at_events", work).await?
            }
        };
        if state.has_foreign {
            // The leader reorders them. The order of all events is unknown until then.
            self.held.begin();
            tracing::debug!("events of a restored dump are not reordered yet");
        } else if self.held.update(&state) >= ASK_AFTER {
            let work = async |conn: &mut Conn| stream::running(conn).await;
            let running = sessions.follow_on(conn, "ask_who_runs", work).await?;
            self.ignored = harmless(&running, &mut self.seen, monotonic());
            self.held.log(&running, &self.ignored);
        }
        let Some((last, server)) = self.at else { return self.begin(conn, &state).await };
        if server != state.server || !state.is_there {
            self.begin_anew(conn, last, &state).await?;
            return Ok(true);
        }
        let is_full = i64::try_from(state.events.len()).is_ok_and(|count| count >= BATCH);
        let upto = state.events.last().map_or(last, |event| Mark { key: event.key, at: event.at });
        if !state.events.is_empty() {
            let batch = Batch { after: last.key, upto, epoch: self.epoch, events: state.events };
            // Fails without listeners.
            let _ = self.hub.batches.send(Arc::new(batch));
        }
        self.set_position(upto, server);
        Ok(is_full)
    }

    async fn begin(&mut self, conn: &mut Conn, state: &StreamState) -> Result<bool, DbError> {
        if state.has_foreign {
            return Ok(false);
        }
        let settled = state.settled;
        let work = async |conn: &mut Conn| stream::newest(conn, settled).await;
        let newest = self.sessions.follow_on(conn, "find_newest_event", work).await?;
        self.set_position(newest.unwrap_or_else(|| Mark::beginning(state.at)), state.server);
        Ok(false)
    }

    /// Discards the position: its event is gone.
    async fn begin_anew(&mut self, conn: &mut Conn, last: Mark, state: &StreamState) -> Result<(), DbError> {
        let work = async |conn: &mut Conn| stream::origin(conn, last).await;
        let origin = self.sessions.follow_on(conn, "ask_for_origin", work).await?;
        let is_expired = origin.oldest.is_some_and(|oldest| last.at < oldest);
        if self.at.is_some_and(|(_, server)| server != state.server) || !is_expired {
            tracing::warn!("the database was replaced or lost commits; restarting all event streams");
            metrics::counter!("sched_api_events_replaced_total").increment(1);
            self.epoch += 1;
            self.hub.publish(None);
        }
        (self.at, self.held) = (None, Delay::default());
        self.ignored.clear();
        self.seen.clear();
        Ok(())
    }

    fn set_position(&mut self, mark: Mark, server: i64) {
        self.at = Some((mark, server));
        let held_since = self.held.since;
        self.hub.publish(Some(Frontier { mark, server, epoch: self.epoch, held_since }));
    }
}

/// Whether the stream is held up, and since when.
#[derive(Debug, Default)]
struct Delay {
    /// The oldest running transaction, and since when it has been the oldest.
    at: Option<i64>,
    since: Option<Instant>,
    is_logged: bool,
}

impl Delay {
    fn begin(&mut self) {
        if self.since.is_none() {
            self.since = Some(monotonic());
        }
    }

    /// Returns how long the stream has waited for the same transaction.
    fn update(&mut self, state: &StreamState) -> Duration {
        let waits_for = Some(state.settled.transaction).filter(|oldest| *oldest < state.next_transaction);
        if waits_for.is_none() || waits_for != self.at {
            *self = Self { at: waits_for, since: None, is_logged: false };
            metrics::gauge!("sched_api_events_held_back_seconds").set(0.0);
        }
        if waits_for.is_none() {
            return Duration::ZERO;
        }
        self.begin();
        self.since.map(|since| monotonic().saturating_duration_since(since)).unwrap_or_default()
    }

    fn log(&mut self, running: &[Running], ignored: &[i64]) {
        let Some(by) = running.iter().find(|one| Some(one.transaction) == self.at) else { return };
        if ignored.contains(&by.transaction) {
            return;
        }
        let held = self.since.map(|since| since.elapsed()).unwrap_or_default();
        metrics::gauge!("sched_api_events_held_back_seconds").set(held.as_secs_f64());
        if held >= LOG_AFTER && !self.is_logged {
            self.is_logged = true;
            tracing::warn!(
                transaction = by.transaction,
                process = by.process,
                has_events = by.has_events,
                "a long transaction holds up the event stream"
            );
        }
    }
}

/// Transactions that will never write a new event, so the stream need not wait for them.
fn harmless(running: &[Running], seen: &mut HashMap<i64, Instant>, now: Instant) -> Vec<i64> {
    seen.retain(|transaction, _| running.iter().any(|one| one.transaction == *transaction));
    let mut harmless = Vec::new();
    for one in running {
        let since = *seen.entry(one.transaction).or_insert(now);
        let is_old = now.saturating_duration_since(since) > WRITES_WITHIN + MARGIN;
        if one.is_found && (one.is_elsewhere || (is_old && !one.has_events)) {
            harmless.push(one.transaction);
        }
    }
    harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_ignores_only_transactions_without_new_events() {
        let one = |transaction, is_elsewhere, has_events, is_found| Running {
            transaction,
            is_elsewhere,
            has_events,
            is_found,
            process: None,
        };
        let running = [
            one(1, true, false, true),
            one(2, false, false, true),
            one(3, false, true, true),
            one(4, false, false, false),
        ];
        let (mut seen, now) = (HashMap::new(), monotonic());
        assert_eq!(harmless(&running, &mut seen, now), [1]);
        assert_eq!(harmless(&running, &mut seen, now + WRITES_WITHIN), [1]);
        let late = now + WRITES_WITHIN + MARGIN + Duration::from_millis(1);
        assert_eq!(harmless(&running, &mut seen, late), [1, 2], "it may not begin any more");
        assert_eq!(harmless(&running[2..], &mut seen, late), Vec::<i64>::new());
        assert_eq!(harmless(&running, &mut seen, late), [1], "it is another one by now");
    }
}
