//! The daemons, each with a keeper that executes orders and restarts it.
//!
//! Every process ends with its keeper, also when the program is killed (`test_support::Process`).

pub(crate) mod clocks;
mod keeper;
mod launch;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anyhow::bail;
use test_support::{free_port, http};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use self::clocks::Clocks;
use self::keeper::{END_LIMIT, Keeper};
use self::launch::launch_in;
use crate::fault_proxy::{FaultProxy, Server};
use crate::plan::{Kind, Target, count_of};
use crate::timeline::Lines;
use crate::workspace::{DATABASE, Workspace};

pub(crate) use self::keeper::Order;
pub(crate) use self::launch::{Station, daemon_name, launch, program, program_in, ready};

const READY_LIMIT: Duration = Duration::from_secs(120);
const POOLED: [Target; 2] =
    [Target { kind: Kind::Scheduler, number: 2 }, Target { kind: Kind::Worker, number: 5 }];

#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) target: Target,
    pub(crate) name: String,
    pub(crate) proxy: FaultProxy,
    /// Address of its health pages; for an API also the address of the API.
    pub(crate) address: SocketAddr,
    pid: Arc<AtomicI32>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Daemon {
    /// 0 before the first.
    pub(crate) fn pid(&self) -> i32 {
        self.pid.load(Ordering::Relaxed)
    }

    pub(crate) fn order(&self, order: Order) {
        // An ended keeper was ordered to end.
        drop(self.orders.send(order));
    }

    /// Waits until it is ready. An error contains the state of the daemon and the event in `after`.
    async fn ready(&self, after: &str) -> anyhow::Result<()> {
        if ready(self.address, READY_LIMIT).await {
            return Ok(());
        }
        let received = http::get(self.address, "/health/ready").await;
        let (answer, shown) = oneshot::channel();
        self.order(Order::Show(answer));
        let shown = tokio::time::timeout(END_LIMIT, shown).await;
        let shown =
            shown.ok().and_then(Result::ok).unwrap_or_else(|| "its keeper does not answer".to_owned());
        let Self { name, address, .. } = self;
        bail!("{name} is not ready {READY_LIMIT:?} after {after}; {address} says {received:?}; {shown}")
    }
}

#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) clocks: Option<Clocks>,
    pub(crate) has_other_build: bool,
    keepers: JoinSet<()>,
}

#[derive(Debug, Default)]
pub(crate) struct Choice<'a> {
    pub(crate) settings: &'a [(&'a str, &'a str)],
    pub(crate) programs: Option<&'a Path>,
    /// The folder of another build, to which rolling restarts switch.
    pub(crate) other_build: Option<&'a Path>,
    pub(crate) clocks: Option<Clocks>,
}

impl Fleet {
    pub(crate) fn pooled() -> Vec<String> {
        POOLED.iter().map(|daemon| format!("{}-{}", daemon_name(daemon.kind), daemon.number)).collect()
    }

    pub(crate) fn schedulers() -> Vec<String> {
        (0..count_of(Kind::Scheduler))
            .map(|number| format!("{}-{number}", daemon_name(Kind::Scheduler)))
            .collect()
    }

    pub(crate) async fn start(
        workspace: &Workspace,
        pooler: SocketAddr,
        timeline: &Arc<Lines>,
        choice: Choice<'_>,
    ) -> anyhow::Result<Self> {
        let Choice { settings, programs, other_build, clocks } = choice;
        let mut fleet = Self {
            daemons: Vec::new(),
            has_other_build: other_build.is_some(),
            clocks,
            keepers: JoinSet::new(),
        };
        for kind in [Kind::Api, Kind::Scheduler, Kind::Worker] {
            for number in 0..count_of(kind) {
                let target = Target { kind, number };
                let server = if POOLED.contains(&target) {
                    Server::Port(pooler)
                } else {
                    Server::Socket(workspace.socket().await?)
                };
                let proxy = FaultProxy::to(server, DATABASE).await?;
                let name = format!("{}-{number}", daemon_name(kind));
                let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
                let clock = fleet.clocks.as_ref().map(|clocks| clocks.settings(target, &name)).transpose()?;
                let clock = clock.unwrap_or_default();
                let station = Station { url: proxy.url(), address, work: &workspace.file("work") };
                let launch_of = |folder: Option<&Path>| {
                    let launch = launch_in(folder, kind, &station)?;
                    let launch =
                        settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
                    anyhow::Ok(clock.iter().fold(launch, |launch, (name, value)| launch.env(name, value)))
                };
                let other = other_build.map(|folder| launch_of(Some(folder))).transpose()?;
                let launch = launch_of(programs)?;
                let pid = Arc::new(AtomicI32::new(0));
                let (orders, received) = mpsc::unbounded_channel();
                let keeper = Keeper {
                    name: name.clone(),
                    launch,
                    other,
                    process: None,
                    address,
                    pid: pid.clone(),
                    log: workspace.file(&format!("logs/{name}.log")),
                    timeline: timeline.clone(),
                };
                fleet.keepers.spawn_local(keeper.run(received));
                fleet.daemons.push(Daemon { target, name, proxy, address, pid, orders });
            }
        }
        for daemon in &fleet.daemons {
            daemon.ready("its start").await?;
        }
        Ok(fleet)
    }

    pub(crate) fn of(&self, target: Target) -> Option<&Daemon> {
        self.daemons.iter().find(|daemon| daemon.target == target)
    }

    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Daemon> {
        self.daemons.iter().filter(move |daemon| daemon.target.kind == kind)
    }

    pub(crate) async fn heal(&self) -> anyhow::Result<()> {
        for daemon in &self.daemons {
            daemon.proxy.clear();
        }
        for daemon in &self.daemons {
            daemon.ready("the faults").await?;
        }
        Ok(())
    }

    /// Stops all daemons; returns those that failed to stop cleanly, with their exit code.
    pub(crate) async fn end(self) -> Vec<String> {
        let mut ends = Vec::new();
        for daemon in &self.daemons {
            let (answer, received) = oneshot::channel();
            daemon.order(Order::End(answer));
            ends.push((daemon.name.clone(), received));
        }
        let mut bad = Vec::new();
        for (name, received) in ends {
            match received.await {
                Ok(Some(0)) => {}
                other => bad.push(format!("{name}: {other:?}")),
            }
        }
        bad
    }
}
