//! The keeper of a daemon: it executes orders one after the other, restarts a daemon that has
//! ended, and logs this to the timeline.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use test_support::{Launch, Process, process_state};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::clocks;
use super::launch::ready;
use crate::timeline::{EXIT, FaultRecord, Lines, RENEW, now};

/// Time limit for a stop on request, work in flight included.
pub(super) const END_LIMIT: Duration = Duration::from_secs(40);
/// Wait before the restart of a daemon.
const AGAIN: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(200);
/// Output lines shown when a daemon does not become ready.
const SHOWN: usize = 20;

#[derive(Debug)]
pub(crate) enum Order {
    Kill(Duration),
    /// Replies once the daemon is dead, whether it ran before. Without a receiver nothing happens.
    KillNow(Duration, oneshot::Sender<bool>),
    Term(Duration),
    Freeze(Duration),
    /// Stops the daemon and starts its other build, if there is one. Replies, once it is ready,
    /// whether the daemon ran before.
    Renew(oneshot::Sender<bool>),
    /// Stops the daemon permanently; replies with its exit code.
    End(oneshot::Sender<Option<i32>>),
    Show(oneshot::Sender<String>),
}

#[derive(Debug, Default)]
struct End {
    code: Option<i32>,
    status: String,
}

pub(super) struct Keeper {
    pub(super) name: String,
    pub(super) launch: Launch,
    /// The build that does not run at the moment.
    pub(super) other: Option<Launch>,
    pub(super) process: Option<Process>,
    pub(super) address: SocketAddr,
    pub(super) pid: Arc<AtomicI32>,
    pub(super) log: PathBuf,
    pub(super) timeline: Arc<Lines>,
}

impl Keeper {
    pub(super) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        self.start();
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::End(answer)) => {
                        let end = self.term().await;
                        if let Some(ended) = self.process.take() {
                            clocks::forget(ended.id());
                        }
                        // The receiver may have ended.
                        let _ = answer.send(end.code);
                        return;
                    }
                    Some(order) => self.execute(order).await,
                    None => return,
                },
                () = sleep(LOOK) => self.look_after().await,
            }
        }
    }

    async fn execute(&mut self, order: Order) {
        let began = now();
        self.look_after().await;
        let process = self.running();
        match order {
            Order::Kill(pause) => self.kill(pause, None).await,
            Order::KillNow(pause, killed) => {
                if !killed.is_closed() {
                    self.kill(pause, Some(killed)).await;
                }
            }
            Order::Term(pause) => {
                let mut end = End::default();
                if process.is_some() {
                    end = self.term().await;
                    self.start_again(pause).await;
                }
                let detail = format!("{}, {pause:?}", end.status);
                self.record_end(process, self.record("term", began, &detail), &end);
            }
            Order::Freeze(lasts) => {
                // The order may have waited in the queue.
                let began = now();
                if let (Some(_), Some(running)) = (process, &mut self.process) {
                    running.pause();
                    sleep(lasts).await;
                    running.resume();
                }
                let detail = format!("{lasts:?}");
                self.record_fault(process, self.record("freeze", began, &detail));
            }
            Order::Renew(answer) => {
                let end = self.term().await;
                if let Some(other) = self.other.take() {
                    self.other = Some(std::mem::replace(&mut self.launch, other));
                }
                self.start_again(Duration::ZERO).await;
                ready(self.address, Duration::from_secs(10)).await;
                self.record_end(process, self.record(RENEW, began, &end.status), &end);
                // The receiver may have ended.
                let _ = answer.send(process.is_some());
            }
            Order::Show(answer) => drop(answer.send(self.show())),
            Order::End(_) => {}
        }
    }

    async fn kill(&mut self, pause: Duration, killed: Option<oneshot::Sender<bool>>) {
        let began = now();
        let process = self.running();
        if let (Some(_), Some(running)) = (process, &mut self.process) {
            running.kill9().await;
        }
        if let Some(killed) = killed {
            // The receiver may have ended.
            let _ = killed.send(process.is_some());
        }
        if process.is_some() {
            self.start_again(pause).await;
        }
        let detail = format!("{pause:?}");
        self.record_fault(process, self.record("kill", began, &detail));
    }

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

    fn running(&mut self) -> Option<i32> {
        let process = self.process.as_mut()?;
        process.exited().is_none().then(|| process.id())
    }

    fn record<'a>(&'a self, kind: &'a str, began: f64, detail: &'a str) -> FaultRecord<'a> {
        FaultRecord { kind, target: &self.name, began, detail }
    }

    /// Logs a fault, or that there was no process.
    fn record_fault(&self, process: Option<i32>, fault: FaultRecord<'_>) {
        match process {
            Some(_) => self.timeline.fault_of(process, fault),
            None => self.timeline.record_omitted(fault.kind, &self.name, "it had ended"),
        }
    }

    /// Logs the end of an ordered process, or that there was no process.
    fn record_end(&self, process: Option<i32>, fault: FaultRecord<'_>, end: &End) {
        match process {
            Some(process) => self.timeline.end_of(process, fault, end.code),
            None => self.timeline.record_omitted(fault.kind, &self.name, "it had ended"),
        }
    }

    async fn look_after(&mut self) {
        let Some(process) = &mut self.process else { return };
        if let Some(status) = process.exited() {
            let began = now();
            self.start_again(AGAIN).await;
            self.timeline.fault(self.record(EXIT, began, &format!("{status}")));
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
                return End { code: status.code(), status: status.to_string() };
            }
            sleep(LOOK).await;
        }
        process.kill9().await;
        self.keep_log();
        End { code: None, status: format!("killed, as it had not ended after {END_LIMIT:?}") }
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
