//! Logs with times, as files of JSON lines: faults, responses to clients, events of a follower.
//!
//! Each line is written at once, so that the file stays valid when the program crashes. Times are
//! seconds since the epoch by this machine's clock, which the database uses too. A fault is logged
//! once it is over. An impossible fault is logged as left out, and does not count.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use sched_runtime::monotonic_clock;
use serde_json::{Value, json};

pub(crate) const LEFT_OUT: &str = "left-out";
/// A daemon ended without an order: a consequence of faults.
pub(crate) const EXIT: &str = "exit";
/// A rolling restart's step for each daemon; the rolling restart is the fault.
pub(crate) const RENEW: &str = "renew";
/// The kind of a line that names a daemon's new process.
pub(crate) const START: &str = "start";

/// Seconds since the epoch.
pub(crate) fn now() -> f64 {
    monotonic_clock::wall().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultRecord<'a> {
    pub(crate) kind: &'a str,
    pub(crate) target: &'a str,
    /// In seconds since the epoch.
    pub(crate) began: f64,
    pub(crate) detail: &'a str,
}

#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: Mutex<(File, usize)>,
    faults: AtomicUsize,
}

impl Lines {
    pub(crate) fn create(path: PathBuf) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("failed to create {}", path.display()))?;
        Ok(Self { path, file: Mutex::new((file, 0)), faults: AtomicUsize::new(0) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn count(&self) -> usize {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    pub(crate) fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, line: &Value) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.1 += 1;
        if let Err(error) = file.0.write_all(format!("{line}\n").as_bytes()) {
            // A missing line would mean that the event did not happen.
            panic!("cannot write {}: {error}", self.path.display());
        }
    }

    pub(crate) fn fault(&self, fault: FaultRecord<'_>) {
        self.fault_of(None, fault);
    }

    pub(crate) fn fault_of(&self, process: Option<i32>, fault: FaultRecord<'_>) {
        let FaultRecord { kind, target, began, detail } = fault;
        self.count_fault(kind);
        self.add(&json!({"kind": kind, "target": target, "process": process, "began": began, "ended": now(), "detail": detail}));
    }

    /// Adds the ordered end of a process, and its exit code, if any.
    pub(crate) fn end_of(&self, process: i32, fault: FaultRecord<'_>, status: Option<i32>) {
        let FaultRecord { kind, target, began, detail } = fault;
        self.count_fault(kind);
        self.add(&json!({"kind": kind, "target": target, "process": process, "began": began, "ended": now(), "detail": detail,
                         "status": status}));
    }

    pub(crate) fn started(&self, process: i32, target: &str) {
        let at = now();
        self.add(&json!({"kind": START, "target": target, "process": process, "began": at, "ended": at, "detail": ""}));
    }

    fn count_fault(&self, kind: &str) {
        if kind != EXIT && kind != RENEW {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_omitted(&self, kind: &str, target: &str, why: &str) {
        let at = now();
        let detail = format!("{kind}: {why}");
        self.add(&json!({"kind": LEFT_OUT, "target": target, "began": at, "ended": at, "detail": detail}));
    }
}
