//! Logs with times, as files of JSON lines: one for faults, another for the responses to clients, a
//! third for the events of a follower.
//!
//! Each line is written whole and at once, so that the file is valid when the program crashes.
//! Times are seconds since the epoch by this machine's clock, which the database uses too. A fault
//! is logged once it is over, and only if it took place. An impossible fault is logged as left out,
//! and does not count.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use sched_runtime::monotonic_clock;
use serde_json::{Value, json};

/// The kind of a planned fault that did not take place.
pub(crate) const LEFT_OUT: &str = "left-out";
/// The kind of a consequence of faults: a daemon ended without an order.
pub(crate) const EXIT: &str = "exit";
/// The kind of a rolling restart's step for each daemon; the rolling restart is the fault.
pub(crate) const RENEW: &str = "renew";
/// The kind of a line that names a daemon's new process.
pub(crate) const START: &str = "start";

/// Seconds since the epoch.
pub(crate) fn now() -> f64 {
    monotonic_clock::wall().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The lines of such a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// A fault that is over, as the timeline records it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultRecord<'a> {
    pub(crate) kind: &'a str,
    /// Name of the daemon or server.
    pub(crate) target: &'a str,
    /// Begin, in seconds since the epoch.
    pub(crate) began: f64,
    pub(crate) detail: &'a str,
}

/// A file of JSON lines.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: Mutex<(File, usize)>,
    faults: AtomicUsize,
}

impl Lines {
    /// Creates an empty file.
    pub(crate) fn create(path: PathBuf) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("failed to create {}", path.display()))?;
        Ok(Self { path, file: Mutex::new((file, 0)), faults: AtomicUsize::new(0) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of lines.
    pub(crate) fn count(&self) -> usize {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Number of faults that took place.
    pub(crate) fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, line: &Value) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.1 += 1;
        if let Err(error) = file.0.write_all(format!("{line}\n").as_bytes()) {
            // A missing line would be read as an event that did not happen.
            panic!("cannot write {}: {error}", self.path.display());
        }
    }

    /// Adds a fault that is over.
    pub(crate) fn fault(&self, fault: FaultRecord<'_>) {
        self.fault_of(None, fault);
    }

    /// Adds a fault of a process; the fault is over.
    pub(crate) fn fault_of(&self, process: Option<i32>, fault: FaultRecord<'_>) {
        let FaultRecord { kind, target, began, detail } = fault;
        self.count_fault(kind);
        self.add(&json!({"kind": kind, "target": target, "process": process, "began": began, "ended": now(), "detail": detail}));
    }

    /// Adds that a process was ordered to end, and its exit code, if it has one.
    pub(crate) fn end_of(&self, process: i32, fault: FaultRecord<'_>, status: Option<i32>) {
        let FaultRecord { kind, target, began, detail } = fault;
        self.count_fault(kind);
        self.add(&json!({"kind": kind, "target": target, "process": process, "began": began, "ended": now(), "detail": detail,
                         "status": status}));
    }

    /// Adds the new process of a daemon.
    pub(crate) fn started(&self, process: i32, target: &str) {
        let at = now();
        self.add(&json!({"kind": START, "target": target, "process": process, "began": at, "ended": at, "detail": ""}));
    }

    fn count_fault(&self, kind: &str) {
        if kind != EXIT && kind != RENEW {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds a planned fault that did not take place.
    pub(crate) fn left_out(&self, kind: &str, target: &str, why: &str) {
        let at = now();
        let detail = format!("{kind}: {why}");
        self.add(&json!({"kind": LEFT_OUT, "target": target, "began": at, "ended": at, "detail": detail}));
    }
}
