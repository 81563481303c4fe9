//! Does to the installation what was planned, each fault at its time; faults that last go on beside those that come after them.
//!
//! Nothing here decides what is done. What cannot be done (a disk that must not be filled) is written down as left out.

use std::sync::Arc;
use std::time::Duration;

use devdb::StopMode;
use test_support::Pooler;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fleet::{Fleet, Order, word};
use crate::place::Place;
use crate::plan::{Fault, Target, Weather, What};
use crate::timeline::{Lines, now};

/// What faults are done to.
#[derive(Debug)]
pub(crate) struct Victims {
    pub(crate) fleet: Fleet,
    pub(crate) place: Arc<Place>,
    pub(crate) pooler: Mutex<Pooler>,
    pub(crate) timeline: Arc<Lines>,
    /// One trouble with the server at a time, and one rolling restart.
    pub(crate) server: Mutex<()>,
    pub(crate) rolling: Mutex<()>,
}

/// Does all of it; returns when the last fault is over.
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
                    daemon.way.cut();
                    self.timeline.fault("cut", &daemon.name, now(), "");
                }
            }
            What::Crash(pause) => return self.stop("crash", StopMode::Immediate, pause).await,
            What::Restart(pause) => return self.stop("restart", StopMode::Fast, pause).await,
            What::Terminate(count) => self.terminate(count).await,
            What::Pooler(pause) => {
                let began = now();
                self.pooler.lock().await.restart(pause).await;
                self.timeline.fault("pooler", "pgbouncer", began, &format!("{pause:?}"));
            }
            What::DiskFull(lasts) => return self.fill(lasts).await,
            What::Rolling(kind) => {
                let _turn = self.rolling.lock().await;
                let began = now();
                for daemon in self.fleet.all(kind) {
                    let (answer, done) = oneshot::channel();
                    daemon.order(Order::Renew(answer));
                    // A keeper that is gone has nothing to renew.
                    drop(done.await);
                }
                self.timeline.fault("rolling", word(kind), began, "");
            }
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
        daemon.way.make(weather, lasting).await;
        let kind = match weather {
            Weather::Fair => "fair",
            Weather::Held => "hold",
            Weather::HalfOpen => "half-open",
            Weather::Delayed(_) => "delay",
            Weather::Refused => "refuse",
            Weather::CutBeforeCommit => "cut-before-commit",
            Weather::CutAfterCommit => "cut-after-commit",
        };
        self.timeline.fault(kind, &daemon.name, began, &format!("{weather:?} {lasts:?}"));
    }

    async fn stop(&self, kind: &str, mode: StopMode, pause: Duration) -> anyhow::Result<()> {
        let _turn = self.server.lock().await;
        let began = now();
        self.place.restart(mode, pause).await?;
        self.timeline.fault(kind, "postgres", began, &format!("{pause:?}"));
        Ok(())
    }

    async fn terminate(&self, count: u64) {
        let began = now();
        let statement = format!(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sched-%'
             ORDER BY random() LIMIT {count}) s"
        );
        // While the server is away there is nothing to end.
        let detail = match self.place.client().await {
            Ok(sql) => sql
                .batch_execute(&statement)
                .await
                .map_or_else(|error| error.to_string(), |()| format!("{count} sessions")),
            Err(error) => error.to_string(),
        };
        self.timeline.fault("terminate", "postgres", began, &detail);
    }

    async fn fill(&self, lasts: Duration) -> anyhow::Result<()> {
        let _turn = self.server.lock().await;
        let began = now();
        if !self.place.has_own_disk {
            self.timeline.fault("disk-full-left-out", "postgres", began, "mounting is not allowed here");
            return Ok(());
        }
        self.place.fill(lasts).await?;
        self.timeline.fault("disk-full", "postgres", began, &format!("{lasts:?}"));
        Ok(())
    }
}
