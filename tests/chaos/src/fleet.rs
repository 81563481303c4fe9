//! The daemons. Each has a keeper that executes orders for it one after the other, and restarts it
//! when it has ended, as an init system would.
//!
//! Every process ends with its keeper, also when the program is killed (`test_support::Process`).
//! The keeper's actions are in the timeline.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use test_support::{Launch, Process, free_port, http, process_state};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::clocks::{self, Clocks};
use crate::place::{DATABASE, Place};
use crate::plan::{Kind, Target, count_of};
use crate::timeline::{EXIT, Lines, RENEW, now};
use crate::way::{Server, Way};

/// Time limit for a daemon to stop on request, work in flight included.
const END_LIMIT: Duration = Duration::from_secs(40);
/// Wait before the restart of a daemon that ended without an order.
const AGAIN: Duration = Duration::from_millis(500);
/// Interval at which a keeper checks its daemon.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit until a daemon is ready.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// Number of output lines that are shown when a daemon does not become ready.
const SHOWN: usize = 20;
/// Daemons that reach the database through the pooler.
const POOLED: [Target; 2] =
    [Target { kind: Kind::Scheduler, number: 2 }, Target { kind: Kind::Worker, number: 5 }];

/// An order to a keeper.
#[derive(Debug)]
pub(crate) enum Order {
    Kill(Duration),
    Term(Duration),
    Freeze(Duration),
    /// Stops the daemon normally and starts its other build, if there is one. Once it is ready, the
    /// reply contains whether the daemon ran before.
    Renew(oneshot::Sender<bool>),
    /// Stops the daemon normally and permanently; replies with its exit code.
    End(oneshot::Sender<Option<i32>>),
    /// Replies with its state and its last output.
    Show(oneshot::Sender<String>),
}

/// A daemon, whether it runs at the moment or not.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) target: Target,
    pub(crate) name: String,
    pub(crate) way: Way,
    /// Address of its health pages; for an API also the address of the API.
    pub(crate) address: SocketAddr,
    /// The id of the current or last process.
    pid: Arc<AtomicI32>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Daemon {
    /// The id of the current or last process; 0 before the first.
    pub(crate) fn pid(&self) -> i32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Sends an order to its keeper.
    pub(crate) fn order(&self, order: Order) {
        // A keeper that has ended was ordered to end.
        drop(self.orders.send(order));
    }

    /// Waits until it is ready; otherwise the error contains all known details, including the event
    /// in `after`.
    async fn ready(&self, after: &str) -> anyhow::Result<()> {
        if ready(self.address, READY_LIMIT).await {
            return Ok(());
        }
        let told = http::get(self.address, "/health/ready").await;
        let (answer, shown) = oneshot::channel();
        self.order(Order::Show(answer));
        let shown = tokio::time::timeout(END_LIMIT, shown).await;
        let shown =
            shown.ok().and_then(Result::ok).unwrap_or_else(|| "its keeper does not answer".to_owned());
        let Self { name, address, .. } = self;
        bail!("{name} is not ready {READY_LIMIT:?} after {after}; {address} says {told:?}; {shown}")
    }
}

#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) daemons: Vec<Daemon>,
    /// The wrong clocks of some daemons, if any.
    pub(crate) clocks: Option<Clocks>,
    /// Whether rolling restarts switch from one build to another.
    pub(crate) has_other_build: bool,
    keepers: JoinSet<()>,
}

/// The options of a run's daemons.
#[derive(Debug, Default)]
pub(crate) struct Choice<'a> {
    /// Additional settings.
    pub(crate) settings: &'a [(&'a str, &'a str)],
    /// The folder of their programs; by default that of this program.
    pub(crate) programs: Option<&'a Path>,
    /// The folder of another build, to which rolling restarts switch, and back.
    pub(crate) other_build: Option<&'a Path>,
    /// The wrong clocks of some daemons.
    pub(crate) clocks: Option<Clocks>,
}

impl Fleet {
    /// The names of the daemons that reach the database through the pooler.
    pub(crate) fn pooled() -> Vec<String> {
        POOLED.iter().map(|daemon| format!("{}-{}", word(daemon.kind), daemon.number)).collect()
    }

    /// The names of all schedulers.
    pub(crate) fn schedulers() -> Vec<String> {
        (0..count_of(Kind::Scheduler)).map(|number| format!("{}-{number}", word(Kind::Scheduler))).collect()
    }

    /// Starts all daemons; returns when they are ready.
    pub(crate) async fn start(
        place: &Place,
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
                    Server::Socket(place.socket().await?)
                };
                let way = Way::to(server, DATABASE).await?;
                let name = format!("{}-{number}", word(kind));
                let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
                let clock = fleet.clocks.as_ref().map(|clocks| clocks.settings(target, &name)).transpose()?;
                let clock = clock.unwrap_or_default();
                let station = Station { url: way.url(), address, work: &place.file("work") };
                let launch_of = |folder: Option<&Path>| {
                    let launch = launch_in(folder, kind, &station)?;
                    let launch =
                        settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
                    anyhow::Ok(clock.iter().fold(launch, |launch, (name, value)| launch.env(name, value)))
                };
                let other = other_build.map(|folder| launch_of(Some(folder))).transpose()?;
                let launch = launch_of(programs)?;
                let pid = Arc::new(AtomicI32::new(0));
                let (orders, told) = mpsc::unbounded_channel();
                let keeper = Keeper {
                    name: name.clone(),
                    launch,
                    other,
                    process: None,
                    address,
                    pid: pid.clone(),
                    log: place.file(&format!("logs/{name}.log")),
                    timeline: timeline.clone(),
                };
                fleet.keepers.spawn_local(keeper.run(told));
                fleet.daemons.push(Daemon { target, name, way, address, pid, orders });
            }
        }
        for daemon in &fleet.daemons {
            daemon.ready("its start").await?;
        }
        Ok(fleet)
    }

    /// The daemon of a target.
    pub(crate) fn of(&self, target: Target) -> Option<&Daemon> {
        self.daemons.iter().find(|daemon| daemon.target == target)
    }

    /// The daemons of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Daemon> {
        self.daemons.iter().filter(move |daemon| daemon.target.kind == kind)
    }

    /// Clears all network faults and waits until all daemons are ready.
    pub(crate) async fn heal(&self) -> anyhow::Result<()> {
        for daemon in &self.daemons {
            daemon.way.clear();
        }
        for daemon in &self.daemons {
            daemon.ready("the faults").await?;
        }
        Ok(())
    }

    /// Stops all daemons normally; returns those that failed to stop cleanly, with their exit code.
    pub(crate) async fn end(self) -> Vec<String> {
        let mut ends = Vec::new();
        for daemon in &self.daemons {
            let (answer, told) = oneshot::channel();
            daemon.order(Order::End(answer));
            ends.push((daemon.name.clone(), told));
        }
        let mut bad = Vec::new();
        for (name, told) in ends {
            match told.await {
                Ok(Some(0)) => {}
                other => bad.push(format!("{name}: {other:?}")),
            }
        }
        bad
    }
}

/// The result of a process that was ordered to end.
#[derive(Debug, Default)]
struct End {
    /// Its exit code, if it has one.
    code: Option<i32>,
    word: String,
}

struct Keeper {
    name: String,
    launch: Launch,
    /// The build that does not run at the moment.
    other: Option<Launch>,
    process: Option<Process>,
    address: SocketAddr,
    pid: Arc<AtomicI32>,
    log: PathBuf,
    timeline: Arc<Lines>,
}

impl Keeper {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        self.start();
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::End(answer)) => {
                        let end = self.term().await;
                        if let Some(ended) = self.process.take() {
                            clocks::forget(ended.id());
                        }
                        // The receiver of the reply may have ended.
                        let _ = answer.send(end.code);
                        return;
                    }
                    Some(order) => self.obey(order).await,
                    None => return,
                },
                () = sleep(LOOK) => self.look_after().await,
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        let began = now();
        self.look_after().await;
        let process = self.running();
        match order {
            Order::Kill(pause) => {
                if let (Some(_), Some(running)) = (process, &mut self.process) {
                    running.kill9().await;
                    self.start_again(pause).await;
                }
                self.tell(process, "kill", (began, &format!("{pause:?}")));
            }
            Order::Term(pause) => {
                let mut end = End::default();
                if process.is_some() {
                    end = self.term().await;
                    self.start_again(pause).await;
                }
                let detail = format!("{}, {pause:?}", end.word);
                self.tell_end(process, "term", (began, &detail), &end);
            }
            Order::Freeze(lasts) => {
                // The time of execution: the order may have waited in the queue.
                let began = now();
                if let (Some(_), Some(running)) = (process, &mut self.process) {
                    running.pause();
                    sleep(lasts).await;
                    running.resume();
                }
                self.tell(process, "freeze", (began, &format!("{lasts:?}")));
            }
            Order::Renew(answer) => {
                let end = self.term().await;
                if let Some(other) = self.other.take() {
                    self.other = Some(std::mem::replace(&mut self.launch, other));
                }
                self.start_again(Duration::ZERO).await;
                ready(self.address, Duration::from_secs(10)).await;
                self.tell_end(process, RENEW, (began, &end.word), &end);
                // The receiver of the reply may have ended.
                let _ = answer.send(process.is_some());
            }
            Order::Show(answer) => drop(answer.send(self.show())),
            Order::End(_) => {}
        }
    }

    /// Whether it runs, and the end of its output.
    fn show(&mut self) -> String {
        self.keep_log();
        let state = self.running().map_or_else(
            || "it does not run".to_owned(),
            |id| format!("it runs as process {id} ({:?})", process_state(id)),
        );
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let skipped = log.lines().count().saturating_sub(SHOWN);
        let end: Vec<_> = log.lines().skip(skipped).collect();
        format!("{state} and wrote last:\n{}", end.join("\n"))
    }

    /// The id of the process, if it runs.
    fn running(&mut self) -> Option<i32> {
        let process = self.process.as_mut()?;
        process.exited().is_none().then(|| process.id())
    }

    /// Logs a fault of a process, or that there was no process.
    fn tell(&self, process: Option<i32>, kind: &str, what: (f64, &str)) {
        match process {
            Some(_) => self.timeline.fault_of(process, kind, &self.name, what),
            None => self.timeline.left_out(kind, &self.name, "it had ended"),
        }
    }

    /// Logs that a process was ordered to end and its result, or that there was no process.
    fn tell_end(&self, process: Option<i32>, kind: &str, what: (f64, &str), end: &End) {
        match process {
            Some(process) => self.timeline.end_of(process, kind, &self.name, what, end.code),
            None => self.timeline.left_out(kind, &self.name, "it had ended"),
        }
    }

    /// Restarts the daemon if it has ended without an order.
    async fn look_after(&mut self) {
        let Some(process) = &mut self.process else { return };
        if let Some(status) = process.exited() {
            let began = now();
            self.start_again(AGAIN).await;
            self.timeline.fault(EXIT, &self.name, began, &format!("{status}"));
        }
    }

    async fn start_again(&mut self, pause: Duration) {
        self.keep_log();
        if let Some(ended) = self.process.take() {
            clocks::forget(ended.id());
        }
        sleep(pause).await;
        self.start();
    }

    fn start(&mut self) {
        let process = self.launch.clone().start();
        self.pid.store(process.id(), Ordering::Relaxed);
        self.timeline.started(process.id(), &self.name);
        self.process = Some(process);
    }

    /// Stops it normally; kills it if it does not stop.
    async fn term(&mut self) -> End {
        let Some(process) = self.process.as_mut() else { return End::default() };
        if process.exited().is_none() {
            process.term();
        }
        let steps = END_LIMIT.as_millis() / LOOK.as_millis();
        for _ in 0..steps {
            if let Some(status) = process.exited() {
                self.keep_log();
                return End { code: status.code(), word: status.to_string() };
            }
            sleep(LOOK).await;
        }
        process.kill9().await;
        self.keep_log();
        End { code: None, word: format!("killed, as it had not ended after {END_LIMIT:?}") }
    }

    /// Keeps its output, which is removed with the process otherwise.
    fn keep_log(&self) {
        let Some(process) = &self.process else { return };
        let written = OpenOptions::new().create(true).append(true).open(&self.log);
        if let Err(error) = written.and_then(|mut file| file.write_all(process.stderr().as_bytes())) {
            eprintln!("the log of {} is lost: {error}", self.name);
        }
    }
}

/// Waits until a daemon is ready, up to `limit`; returns whether it is.
pub(crate) async fn ready(address: SocketAddr, limit: Duration) -> bool {
    let ask = async || http::get(address, "/health/ready").await.is_ok_and(|answer| answer.status == 200);
    let waiting = async {
        while !ask().await {
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}

pub(crate) const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Scheduler => "scheduler",
        Kind::Worker => "worker",
        Kind::Api => "api",
    }
}

/// The database, the address and the folder of a daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Station<'a> {
    pub(crate) url: &'a str,
    pub(crate) address: SocketAddr,
    pub(crate) work: &'a Path,
}

/// A daemon from the programs beside this one. Leases are short, so that faults of seconds expire
/// them.
pub(crate) fn launch(kind: Kind, station: &Station<'_>) -> anyhow::Result<Launch> {
    launch_in(None, kind, station)
}

fn launch_in(folder: Option<&Path>, kind: Kind, station: &Station<'_>) -> anyhow::Result<Launch> {
    std::fs::create_dir_all(station.work)?;
    let port = station.address.port().to_string();
    let name = format!("sched-{}", word(kind));
    let program = match folder {
        Some(folder) => program_in(folder, &name)?,
        None => program(&name)?,
    };
    let launch = Process::at(&program).env("DATABASE_URL", station.url).env("LOG_FORMAT", "json");
    let settings: &[(&str, &str)] = match kind {
        Kind::Api => &[("API_PORT", &port)],
        Kind::Scheduler => &[
            ("HEALTH_PORT", &port),
            ("LEADER_LEASE", "3s"),
            ("LEADER_HEARTBEAT_INTERVAL", "300ms"),
            ("WORKER_OFFLINE_THRESHOLD", "5s"),
        ],
        Kind::Worker => &[
            ("HEALTH_PORT", &port),
            ("WORKER_OFFLINE_THRESHOLD", "5s"),
            ("WORKER_HEARTBEAT_INTERVAL", "500ms"),
            ("WORKER_MAX_POLL_INTERVAL", "2s"),
            ("WORKER_CONCURRENCY", "4"),
            ("WORKER_QUEUES", "default,narrow,side"),
            ("WORKER_DRAIN_TIMEOUT", "3s"),
        ],
    };
    let launch = launch.env("WORKER_TEMP_DIR", station.work);
    Ok(settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value)))
}

/// A program of the same build as this one.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.is_file(), "{} is missing; scripts/chaos builds it", path.display());
    Ok(path)
}

/// A program of another build.
pub(crate) fn program_in(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?.join(name);
    ensure!(path.is_file(), "{} is missing", path.display());
    Ok(path)
}
