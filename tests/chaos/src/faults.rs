//! Injects the planned faults, each at its time. A lasting fault continues beside later ones.
//!
//! A fault that cannot take place (a disk that must not be filled, a session that does not exist)
//! is logged as left out, and does not count.

pub(crate) mod drains;
pub(crate) mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use devdb::StopMode;
use test_support::Pooler;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fleet::clocks::Clocks;
use crate::fleet::{Fleet, Order, word};
use crate::place::Place;
use crate::plan::{Fault, Kind, Target, Weather, What};
use crate::timeline::{FaultRecord, Lines, now};

const DRAIN_TRIES: usize = 12;
const DRAIN_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Victims {
    pub(crate) fleet: Fleet,
    pub(crate) place: Arc<Place>,
    pub(crate) pooler: Mutex<Pooler>,
    pub(crate) timeline: Arc<Lines>,
    /// Serialises faults of one kind: one server fault, one rolling restart, one wrong clock at a
    /// time.
    pub(crate) server: Mutex<()>,
    pub(crate) rolling: Mutex<()>,
    pub(crate) clock: Mutex<()>,
}

pub(crate) async fn inject(
    victims: &Arc<Victims>,
    faults: Vec<Fault>,
    since_start: impl Fn() -> Duration,
) -> anyhow::Result<()> {
    let mut going_on: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for fault in faults {
        sleep(fault.at.saturating_sub(since_start())).await;
        going_on.spawn_local(Arc::clone(victims).inflict(fault.what));
        while let Some(ended) = going_on.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = going_on.join_next().await {
        ended??;
    }
    Ok(())
}

impl Victims {
    async fn inflict(self: Arc<Self>, what: What) -> anyhow::Result<()> {
        match what {
            What::Kill(target, pause) => self.order(target, Order::Kill(pause)),
            What::Term(target, pause) => self.order(target, Order::Term(pause)),
            What::Freeze(target, lasts) => self.order(target, Order::Freeze(lasts)),
            What::Network(target, weather, lasts) => self.weather(target, weather, lasts).await,
            What::Cut(target) => {
                if let Some(daemon) = self.fleet.of(target) {
                    match daemon.way.cut() {
                        0 => self.timeline.left_out("cut", &daemon.name, "it has no connection"),
                        open => self.timeline.fault(FaultRecord {
                            kind: "cut",
                            target: &daemon.name,
                            began: now(),
                            detail: &format!("{open} connections"),
                        }),
                    }
                }
            }
            What::Crash(pause) => return self.stop("crash", StopMode::Immediate, pause).await,
            What::Restart(pause) => return self.stop("restart", StopMode::Fast, pause).await,
            What::Terminate(count) => self.terminate(count).await,
            What::Pooler(pause) => {
                let began = now();
                self.pooler.lock().await.restart(pause).await;
                self.timeline.fault(FaultRecord {
                    kind: "pooler",
                    target: "pgbouncer",
                    began,
                    detail: &format!("{pause:?}"),
                });
            }
            What::DiskFull(lasts) => return self.fill(lasts).await,
            What::Rolling(kind) => self.roll(kind).await,
            What::Drain(number, lasts) => self.drain(number, lasts).await,
            What::Snapshot(lasts) => self.hold_snapshot(lasts).await,
            What::Clock(kind, seconds, lasts) => return self.step(kind, seconds, lasts).await,
        }
        Ok(())
    }

    fn order(&self, target: Target, order: Order) {
        if let Some(daemon) = self.fleet.of(target) {
            daemon.order(order);
        }
    }

    async fn weather(&self, target: Target, weather: Weather, lasts: Duration) {
        let Some(daemon) = self.fleet.of(target) else { return };
        let mut began = now();
        let lasting = async {
            began = now();
            sleep(lasts).await;
        };
        let was_felt = daemon.way.make(weather, lasting).await;
        let kind = weather.word();
        if was_felt {
            self.timeline.fault(FaultRecord {
                kind,
                target: &daemon.name,
                began,
                detail: &format!("{weather:?} {lasts:?}"),
            });
        } else {
            self.timeline.left_out(kind, &daemon.name, "nothing passed meanwhile");
        }
    }

    async fn stop(&self, kind: &str, mode: StopMode, pause: Duration) -> anyhow::Result<()> {
        let _turn = self.server.lock().await;
        let began = now();
        if self.place.restart(mode, pause).await? {
            self.timeline.fault(FaultRecord {
                kind,
                target: "postgres",
                began,
                detail: &format!("{pause:?}"),
            });
        } else {
            self.timeline.left_out(kind, "postgres", "it did not run");
        }
        Ok(())
    }

    async fn terminate(&self, count: u64) {
        let began = now();
        let statement = format!(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
                 SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sched-%' ORDER BY random() LIMIT {count}) s"
        );
        let ending = async {
            anyhow::Ok(self.place.client().await?.query_one(&statement, &[]).await?.get::<_, i64>(0))
        };
        match ending.await {
            Ok(0) => self.timeline.left_out("terminate", "postgres", "it had no sessions"),
            Ok(ended) => self.timeline.fault(FaultRecord {
                kind: "terminate",
                target: "postgres",
                began,
                detail: &format!("{ended} sessions"),
            }),
            Err(error) => self.timeline.left_out("terminate", "postgres", &format!("{error:#}")),
        }
    }

    async fn fill(&self, lasts: Duration) -> anyhow::Result<()> {
        let _turn = self.server.lock().await;
        let began = now();
        if !self.place.has_own_disk {
            self.timeline.left_out("disk-full", "postgres", "mounting is not allowed here");
        } else if self.place.fill(lasts).await? {
            self.timeline.fault(FaultRecord {
                kind: "disk-full",
                target: "postgres",
                began,
                detail: &format!("{lasts:?}"),
            });
        } else {
            self.timeline.left_out("disk-full", "postgres", "the disk was not full");
        }
        Ok(())
    }

    async fn roll(&self, kind: Kind) {
        let _turn = self.rolling.lock().await;
        let began = now();
        let mut renewed = 0;
        for daemon in self.fleet.all(kind) {
            let (answer, done) = oneshot::channel();
            daemon.order(Order::Renew(answer));
            // A keeper that has ended has nothing to renew.
            renewed += usize::from(done.await.unwrap_or(false));
        }
        let name = What::Rolling(kind).word(self.fleet.has_other_build);
        let build = if self.fleet.has_other_build { "the other build" } else { "the same build" };
        if renewed > 0 {
            self.timeline.fault(FaultRecord {
                kind: name,
                target: word(kind),
                began,
                detail: &format!("{renewed} with {build}"),
            });
        } else {
            self.timeline.left_out(name, word(kind), "none of them ran");
        }
    }

    async fn drain(&self, number: usize, lasts: Duration) {
        let Some(daemon) = self.fleet.of(Target { kind: Kind::Worker, number }) else { return };
        let apis: Vec<_> = self.fleet.all(Kind::Api).map(|api| api.address).collect();
        let mut asked = None;
        let mut why = String::new();
        // The worker may be starting, or the database may be down.
        for _ in 0..DRAIN_TRIES {
            let process = daemon.pid();
            match drains::ask(&self.place, &apis, process).await {
                Ok(worker) => {
                    asked = Some((process, worker));
                    break;
                }
                Err(error) => why = format!("{error:#}"),
            }
            sleep(DRAIN_PAUSE).await;
        }
        let Some((process, worker)) = asked else {
            self.timeline.left_out("drain", &daemon.name, &why);
            return;
        };
        let began = now();
        sleep(lasts).await;
        // Logged before the revocation, after which the worker may claim.
        let fault = FaultRecord { kind: "drain", target: &daemon.name, began, detail: &worker };
        self.timeline.fault_of(Some(process), fault);
        drains::take_back(&self.place, &apis, Some(process)).await;
    }

    async fn hold_snapshot(&self, lasts: Duration) {
        let mut began = None;
        let held = snapshot::hold(&self.place, lasts, || began = Some(now())).await;
        match (began, held) {
            (Some(began), Ok(())) => self.timeline.fault(FaultRecord {
                kind: "snapshot",
                target: "postgres",
                began,
                detail: &format!("{lasts:?}"),
            }),
            (Some(began), Err(error)) => {
                self.timeline.fault(FaultRecord {
                    kind: "snapshot",
                    target: "postgres",
                    began,
                    detail: &format!("{lasts:?}, cut short: {error:#}"),
                });
            }
            (None, Err(error)) => self.timeline.left_out("snapshot", "postgres", &format!("{error:#}")),
            (None, Ok(())) => {}
        }
    }

    async fn step(&self, kind: Kind, seconds: i64, lasts: Duration) -> anyhow::Result<()> {
        let Some(daemon) = self.fleet.of(Clocks::target(kind)) else { return Ok(()) };
        let Some(clocks) = &self.fleet.clocks else {
            self.timeline.left_out("clock", &daemon.name, "libfaketime is not installed here");
            return Ok(());
        };
        let _turn = self.clock.lock().await;
        let began = now();
        clocks.set(&daemon.name, seconds)?;
        sleep(lasts).await;
        clocks.set(&daemon.name, 0)?;
        self.timeline.fault(FaultRecord {
            kind: "clock",
            target: &daemon.name,
            began,
            detail: &format!("{seconds:+} s, then back"),
        });
        Ok(())
    }
}
