//! Injects the planned faults, each at its time. A lasting fault continues beside later ones.
//!
//! A fault that cannot take place (a disk that must not be filled, a session that does not exist)
//! is logged as left out, and does not count.

mod counting;
pub(crate) mod drains;
mod revocation;
pub(crate) mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use devdb::StopMode;
use test_support::Pooler;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fleet::clocks::Clocks;
use crate::fleet::{Fleet, Order, daemon_name};
use crate::plan::{Fault, FaultKind, Kind, NetworkState, Target};
use crate::timeline::{FaultRecord, Lines, now};
use crate::workspace::Workspace;

const DRAIN_TRIES: usize = 12;
const DRAIN_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Victims {
    pub(crate) fleet: Fleet,
    pub(crate) workspace: Arc<Workspace>,
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
        going_on.spawn_local(Arc::clone(victims).inflict(fault.kind));
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
    async fn inflict(self: Arc<Self>, kind: FaultKind) -> anyhow::Result<()> {
        match kind {
            FaultKind::Kill(target, pause) => self.order(target, Order::Kill(pause)),
            FaultKind::KillUncounted(pause) => self.kill_uncounted(pause).await,
            FaultKind::Term(target, pause) => self.order(target, Order::Term(pause)),
            FaultKind::Freeze(target, lasts) => self.order(target, Order::Freeze(lasts)),
            FaultKind::Count(lasts) => self.count_beside(lasts).await,
            FaultKind::Revoke(number) => self.revoke_beside_ends(number).await,
            FaultKind::Network(target, network, lasts) => self.disturb_network(target, network, lasts).await,
            FaultKind::Cut(target) => {
                if let Some(daemon) = self.fleet.of(target) {
                    match daemon.proxy.cut() {
                        0 => self.timeline.record_omitted("cut", &daemon.name, "it has no connection"),
                        open => self.timeline.fault(FaultRecord {
                            kind: "cut",
                            target: &daemon.name,
                            began: now(),
                            detail: &format!("{open} connections"),
                        }),
                    }
                }
            }
            FaultKind::Crash(pause) => return self.stop("crash", StopMode::Immediate, pause).await,
            FaultKind::Restart(pause) => return self.stop("restart", StopMode::Fast, pause).await,
            FaultKind::Terminate(count) => self.terminate(count).await,
            FaultKind::Pooler(pause) => {
                let began = now();
                self.pooler.lock().await.restart(pause).await;
                self.timeline.fault(FaultRecord {
                    kind: "pooler",
                    target: "pgbouncer",
                    began,
                    detail: &format!("{pause:?}"),
                });
            }
            FaultKind::DiskFull(lasts) => return self.fill(lasts).await,
            FaultKind::Rolling(kind) => self.roll(kind).await,
            FaultKind::Drain(number, lasts) => self.drain(number, lasts).await,
            FaultKind::Snapshot(lasts) => self.hold_snapshot(lasts).await,
            FaultKind::Clock(kind, seconds, lasts) => return self.step(kind, seconds, lasts).await,
        }
        Ok(())
    }

    fn order(&self, target: Target, order: Order) {
        if let Some(daemon) = self.fleet.of(target) {
            daemon.order(order);
        }
    }

    async fn disturb_network(&self, target: Target, network: NetworkState, lasts: Duration) {
        let Some(daemon) = self.fleet.of(target) else { return };
        let mut began = now();
        let lasting = async {
            began = now();
            sleep(lasts).await;
        };
        let was_felt = daemon.proxy.make(network, lasting).await;
        let kind = network.name();
        if was_felt {
            self.timeline.fault(FaultRecord {
                kind,
                target: &daemon.name,
                began,
                detail: &format!("{network:?} {lasts:?}"),
            });
        } else {
            self.timeline.record_omitted(kind, &daemon.name, "nothing passed meanwhile");
        }
    }

    async fn stop(&self, kind: &str, mode: StopMode, pause: Duration) -> anyhow::Result<()> {
        let _turn = self.server.lock().await;
        let began = now();
        if self.workspace.restart(mode, pause).await? {
            self.timeline.fault(FaultRecord {
                kind,
                target: "postgres",
                began,
                detail: &format!("{pause:?}"),
            });
        } else {
            self.timeline.record_omitted(kind, "postgres", "it did not run");
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
            anyhow::Ok(self.workspace.client().await?.query_one(&statement, &[]).await?.get::<_, i64>(0))
        };
        match ending.await {
            Ok(0) => self.timeline.record_omitted("terminate", "postgres", "it had no sessions"),
            Ok(ended) => self.timeline.fault(FaultRecord {
                kind: "terminate",
                target: "postgres",
                began,
                detail: &format!("{ended} sessions"),
            }),
            Err(error) => self.timeline.record_omitted("terminate", "postgres", &format!("{error:#}")),
        }
    }

    async fn fill(&self, lasts: Duration) -> anyhow::Result<()> {
        let _turn = self.server.lock().await;
        let began = now();
        if !self.workspace.has_own_disk {
            self.timeline.record_omitted("disk-full", "postgres", "mounting is not allowed here");
        } else if self.workspace.fill(lasts).await? {
            self.timeline.fault(FaultRecord {
                kind: "disk-full",
                target: "postgres",
                began,
                detail: &format!("{lasts:?}"),
            });
        } else {
            self.timeline.record_omitted("disk-full", "postgres", "the disk was not full");
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
        let name = FaultKind::Rolling(kind).name(self.fleet.has_other_build);
        let build = if self.fleet.has_other_build { "the other build" } else { "the same build" };
        if renewed > 0 {
            self.timeline.fault(FaultRecord {
                kind: name,
                target: daemon_name(kind),
                began,
                detail: &format!("{renewed} with {build}"),
            });
        } else {
            self.timeline.record_omitted(name, daemon_name(kind), "none of them ran");
        }
    }

    async fn drain(&self, number: usize, lasts: Duration) {
        let Some(daemon) = self.fleet.of(Target { kind: Kind::Worker, number }) else { return };
        let apis: Vec<_> = self.fleet.all(Kind::Api).map(|api| api.address).collect();
        let mut drained = None;
        let mut why = String::new();
        // The worker may be starting, or the database may be down.
        for _ in 0..DRAIN_TRIES {
            let process = daemon.pid();
            match drains::request_drain(&self.workspace, &apis, process).await {
                Ok(worker) => {
                    drained = Some((process, worker));
                    break;
                }
                Err(error) => why = format!("{error:#}"),
            }
            sleep(DRAIN_PAUSE).await;
        }
        let Some((process, worker)) = drained else {
            self.timeline.record_omitted("drain", &daemon.name, &why);
            return;
        };
        let began = now();
        sleep(lasts).await;
        // Logged before the revocation, after which the worker may claim.
        let fault = FaultRecord { kind: "drain", target: &daemon.name, began, detail: &worker };
        self.timeline.fault_of(Some(process), fault);
        drains::undrain(&self.workspace, &apis, Some(process)).await;
    }

    async fn hold_snapshot(&self, lasts: Duration) {
        let mut began = None;
        let held = snapshot::hold(&self.workspace, lasts, || began = Some(now())).await;
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
            (None, Err(error)) => self.timeline.record_omitted("snapshot", "postgres", &format!("{error:#}")),
            (None, Ok(())) => {}
        }
    }

    async fn step(&self, kind: Kind, seconds: i64, lasts: Duration) -> anyhow::Result<()> {
        let Some(daemon) = self.fleet.of(Clocks::target(kind)) else { return Ok(()) };
        let Some(clocks) = &self.fleet.clocks else {
            self.timeline.record_omitted("clock", &daemon.name, "libfaketime is not installed here");
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
