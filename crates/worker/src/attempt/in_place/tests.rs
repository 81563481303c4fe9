use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use sched_model::domain::attempt::AttemptOutcome::{self, Cancelled, Completed, Failed, Released};
use sched_model::domain::ids::ClaimToken;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::attempt::fixture::{claimed, session};
use crate::attempt::stops::Stops;
use crate::backend::{Claimed, Ended};
use crate::completion::Completer;
use crate::handlers::native::{Ctx, HandlerError, Registry};

const SLOTS: usize = 3;
const PLACES: usize = 1_000;
/// Turns end only after [`TURN`] polls, and nothing takes attempts over.
const UNLIMITED: Pace = Pace { turn: Duration::from_secs(3600), tick: Duration::from_secs(3600) };

type Returned = Result<(), HandlerError>;

/// Tasks in which handlers began, in order.
type Tasks = Arc<Mutex<Vec<tokio::task::Id>>>;

/// A worker with handlers on two threads. The attempts of a test start in one claim.
struct Bench {
    session: Arc<Session>,
    completer: Completer,
    places: Arc<Semaphore>,
    slots_busy: Arc<AtomicU64>,
    pace: Pace,
    tasks: Tasks,
    /// Number of handlers `block` that have begun.
    blocked: Arc<AtomicUsize>,
    /// Ends one of these handlers for each message.
    unblock: mpsc::Sender<()>,
    added: i64,
    attempts: Vec<Attempt>,
}

impl Bench {
    fn new(add: impl FnOnce(&mut Registry)) -> Self {
        let mut registry = Registry::default();
        add(&mut registry);
        let (tasks, blocked) = (Tasks::default(), Arc::<AtomicUsize>::default());
        let noted = tasks.clone();
        let quick = move |_: Ctx, _: Value| {
            noted.lock().unwrap().push(tokio::task::id());
            async { Returned::Ok(()) }
        };
        registry.add("quick", quick).unwrap();
        let (unblock, unblocked) = mpsc::channel::<()>();
        let (noted, begun, unblocked) = (tasks.clone(), blocked.clone(), Arc::new(Mutex::new(unblocked)));
        let block = move |_: Ctx, _: Value| {
            noted.lock().unwrap().push(tokio::task::id());
            begun.fetch_add(1, Ordering::AcqRel);
            let unblocked = unblocked.clone();
            async move { unblocked.lock().unwrap().recv().map_err(HandlerError::from) }
        };
        registry.add("block", block).unwrap();
        let (mut session, completer) = session(registry, SLOTS);
        let slots_busy = Arc::<AtomicU64>::default();
        Arc::get_mut(&mut session).unwrap().worker.meters.slots_busy = slots_busy.clone().into();
        let places = Arc::new(Semaphore::new(PLACES));
        let (pace, added, attempts) = (UNLIMITED, 0, Vec::new());
        Self { session, completer, places, slots_busy, pace, tasks, blocked, unblock, added, attempts }
    }

    /// Adds attempts; returns the stops of the last.
    fn add(&mut self, handler: &str, count: usize) -> Arc<Stops> {
        let release = Arc::new(self.session.release.clone());
        for _ in 0..count {
            let token = ClaimToken(self.added);
            self.added += 1;
            let handler_config = json!({"handler": handler, "grace_seconds": 60});
            let claimed = Claimed { token, handler_type: "native".into(), handler_config, ..claimed() };
            self.attempts.push(Attempt {
                session: self.session.clone(),
                claimed: Box::new(claimed),
                stops: Arc::new(Stops::new(release.clone())),
                place: Some(self.places.clone().try_acquire_owned().unwrap()),
                received: monotonic(),
            });
        }
        self.attempts.last().unwrap().stops.clone()
    }

    fn start(&mut self) {
        self.session.worker.prefetch.claimed(self.attempts.len());
        start_at(self.pace, std::mem::take(&mut self.attempts));
    }

    /// Waits until so many handlers block their threads. While the clock is paused, no tick comes
    /// before that, because this task is never idle.
    async fn blocks(&self, count: usize) {
        while self.blocked.load(Ordering::Acquire) < count {
            tokio::task::yield_now().await;
        }
    }

    async fn ends(&mut self, count: usize) -> BTreeMap<i64, Ended> {
        let mut ends = BTreeMap::new();
        while ends.len() < count {
            let ended = self.completer.next_end().await;
            assert!(ends.insert(ended.token.0, ended).is_none(), "an attempt ends once");
        }
        ends
    }

    async fn outcomes(&mut self, count: usize) -> Vec<AttemptOutcome> {
        self.ends(count).await.into_values().map(|ended| ended.outcome).collect()
    }

    /// In how many tasks the first handlers began.
    fn tasks_of(&self, handlers: usize) -> usize {
        self.tasks.lock().unwrap()[..handlers].iter().collect::<HashSet<_>>().len()
    }

    /// No attempt, slot, place or handler is left.
    async fn all_over(self) {
        self.session.attempts.close();
        self.session.attempts.wait().await;
        let worker = &self.session.worker;
        assert_eq!(worker.slots.available_permits(), SLOTS);
        assert_eq!(self.slots_busy.load(Ordering::Acquire), 0.0_f64.to_bits());
        assert_eq!(self.places.available_permits(), PLACES);
        assert_eq!(worker.native.alive(), 0);
        assert_eq!(worker.prefetch.waiting(), 0, "every start is recorded");
    }
}

#[tokio::test]
async fn tiny_attempts_run_in_one_task() {
    let mut bench = Bench::new(|_| {});
    bench.add("quick", 10);
    bench.start();
    assert_eq!(bench.outcomes(10).await, [Completed; 10]);
    assert_eq!(bench.tasks_of(10), 1);
    bench.all_over().await;
}

#[tokio::test]
async fn claim_of_several_turns_ends_completely() {
    const COUNT: usize = 2 * TURN + 5;
    let mut bench = Bench::new(|_| {});
    bench.add("quick", COUNT);
    bench.start();
    assert_eq!(bench.outcomes(COUNT).await, [Completed; COUNT]);
    assert_eq!(bench.tasks_of(COUNT), 3);
    bench.all_over().await;
}

#[tokio::test]
async fn turn_ends_after_its_time() {
    let mut bench = Bench::new(|_| {});
    bench.pace.turn = Duration::ZERO;
    bench.add("quick", 3);
    bench.start();
    assert_eq!(bench.outcomes(3).await, [Completed; 3]);
    assert_eq!(bench.tasks_of(3), 3);
    bench.all_over().await;
}

#[tokio::test(start_paused = true)]
async fn blocking_handler_in_place_delays_no_other() {
    let mut bench = Bench::new(|_| {});
    bench.pace.tick = PACE.tick;
    bench.add("quick", 2);
    bench.add("block", 1);
    bench.add("quick", 10);
    bench.start();
    bench.blocks(1).await;
    assert_eq!(bench.tasks_of(3), 1);
    tokio::time::resume();
    let ends = bench.ends(12).await;
    assert!(!ends.contains_key(&2) && ends.values().all(|ended| ended.outcome == Completed));
    bench.unblock.send(()).unwrap();
    assert_eq!(bench.outcomes(1).await, [Completed]);
    bench.all_over().await;
}

#[tokio::test(start_paused = true)]
async fn stop_ends_while_all_threads_are_blocked() {
    let mut bench = Bench::new(|_| {});
    bench.pace.tick = PACE.tick;
    for _ in 0..2 {
        bench.add("block", 1);
        bench.start();
    }
    bench.blocks(2).await;
    bench.add("quick", 5);
    bench.start();
    while bench.session.worker.slots.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    bench.session.stop_claiming.cancel();
    tokio::time::resume();
    assert_eq!(bench.outcomes(5).await, [Released; 5], "the turn of the last claim never begins");
    assert_eq!(bench.tasks_of(2), 2);
    bench.session.kill.cancel();
    bench.session.attempts.close();
    bench.session.attempts.wait().await;
    let session = bench.session.clone();
    assert_eq!((session.left.load(Ordering::Relaxed), session.worker.native.alive()), (2, 2));
    bench.unblock.send(()).unwrap();
    bench.unblock.send(()).unwrap();
    assert!(session.worker.native.ended_within(Duration::from_secs(60)).await);
    bench.all_over().await;
}

#[tokio::test(start_paused = true)]
async fn cancellation_reaches_a_handler_in_place() {
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let mut bench = Bench::new(|registry| {
        let spin = move |ctx: Ctx, _: Value| {
            let begins = begins.clone();
            async move {
                begins.store(true, Ordering::Release);
                while !ctx.is_cancelled() {
                    std::thread::yield_now();
                }
                tokio::task::yield_now().await;
                Returned::Ok(())
            }
        };
        registry.add("spin", spin).unwrap();
    });
    bench.pace.tick = PACE.tick;
    bench.add("quick", 2);
    let stops = bench.add("spin", 1);
    bench.start();
    while !begun.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.tasks_of(2), 1);
    assert!(stops.cancel());
    tokio::time::resume();
    let ended = bench.ends(3).await.remove(&2).unwrap();
    assert_eq!(ended.outcome, Cancelled);
    let message = ended.record.error_message.unwrap();
    assert_eq!(message, "cancelled; returned within the grace period");
    bench.all_over().await;
}

fn panics() -> Returned {
    panic!("no luck")
}

#[derive(Debug)]
struct WithoutText;

impl std::fmt::Display for WithoutText {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no text")
    }
}

impl std::error::Error for WithoutText {}

#[tokio::test]
async fn panic_in_place_fails_one_attempt() {
    let mut bench = Bench::new(|registry| {
        registry.add("panic", |_, _: Value| async { panics() }).unwrap();
        let at_once = |_: Ctx, _: Value| -> std::future::Ready<Returned> { panic!("at once") };
        registry.add("at_once", at_once).unwrap();
        registry.add("no_text", |_, _: Value| async { Err::<(), _>(WithoutText) }).unwrap();
    });
    bench.add("quick", 1);
    bench.add("panic", 1);
    bench.add("at_once", 1);
    bench.add("no_text", 1);
    bench.add("quick", 1);
    bench.start();
    let ends = bench.ends(5).await;
    let outcomes: Vec<_> = ends.values().map(|ended| ended.outcome).collect();
    assert_eq!(outcomes, [Completed, Failed, Failed, Failed, Completed]);
    assert_eq!(ends[&1].record.error_class.as_deref(), Some("panic"));
    assert!(ends[&1].record.error_message.as_ref().unwrap().ends_with(": no luck"));
    assert_eq!(bench.tasks_of(2), 1);
    bench.all_over().await;
}

#[tokio::test]
async fn cancelled_attempt_is_never_polled() {
    let called = Arc::new(AtomicBool::new(false));
    let calls = called.clone();
    let mut bench = Bench::new(|registry| {
        let call = move |_: Ctx, _: Value| {
            calls.store(true, Ordering::Release);
            async { Returned::Ok(()) }
        };
        registry.add("call", call).unwrap();
    });
    bench.add("quick", 1);
    assert!(bench.add("call", 1).cancel());
    bench.add("quick", 1);
    bench.start();
    let ends = bench.ends(3).await;
    assert_eq!(ends[&1].outcome, Cancelled);
    assert_eq!(ends[&1].record.error_message.as_deref(), Some("cancelled before it started"));
    assert!(!called.load(Ordering::Acquire));
    assert_eq!(bench.tasks_of(2), 1);
    bench.all_over().await;
}

#[tokio::test]
async fn pending_handler_continues_in_its_own_task() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let mut bench = Bench::new(|registry| {
        let wait = move |_: Ctx, _: Value| {
            let waits = waits.clone();
            async move { waits.acquire().await.map(drop).map_err(HandlerError::from) }
        };
        registry.add("wait", wait).unwrap();
    });
    bench.add("wait", 2);
    bench.add("quick", 3);
    bench.start();
    let first = bench.ends(3).await;
    assert_eq!(first.into_keys().collect::<Vec<_>>(), [2, 3, 4], "no other handler waits");
    assert_eq!(bench.tasks_of(3), 1);
    gate.add_permits(2);
    assert_eq!(bench.outcomes(2).await, [Completed; 2]);
    bench.all_over().await;
}

#[tokio::test]
async fn result_of_a_lost_claim_is_discarded() {
    let stops: Arc<Mutex<Option<Arc<Stops>>>> = Arc::default();
    let own = stops.clone();
    let mut bench = Bench::new(|registry| {
        let lose = move |_: Ctx, _: Value| {
            assert!(own.lock().unwrap().take().unwrap().lose());
            async { Returned::Ok(()) }
        };
        registry.add("lose", lose).unwrap();
    });
    bench.add("quick", 2);
    let of_attempt = bench.add("lose", 1);
    *stops.lock().unwrap() = Some(of_attempt);
    bench.start();
    let ended = bench.ends(3).await.remove(&2).unwrap();
    assert_eq!((ended.outcome, ended.record.error_class.as_deref()), (Released, Some("claim_lost")));
    assert_eq!(bench.tasks_of(2), 1);
    bench.all_over().await;
}

#[tokio::test]
async fn lost_lease_ends_a_claim_without_reports() {
    let session: Arc<Mutex<Option<Arc<Session>>>> = Arc::default();
    let own = session.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let counts = calls.clone();
    let mut bench = Bench::new(|registry| {
        let kill = move |_: Ctx, _: Value| {
            counts.fetch_add(1, Ordering::AcqRel);
            own.lock().unwrap().take().unwrap().kill.cancel();
            async { Returned::Ok(()) }
        };
        registry.add("kill", kill).unwrap();
    });
    *session.lock().unwrap() = Some(bench.session.clone());
    bench.add("quick", 2);
    bench.add("kill", 5);
    bench.start();
    assert_eq!(bench.outcomes(2).await, [Completed; 2]);
    assert_eq!(bench.tasks_of(2), 1);
    bench.session.attempts.close();
    bench.session.attempts.wait().await;
    assert_eq!(calls.load(Ordering::Acquire), 1, "no attempt begins after the loss");
    assert_eq!(bench.session.left.load(Ordering::Relaxed), 5);
    bench.all_over().await;
}
