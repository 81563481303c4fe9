//! What happened and when, as lines of JSON in a file: faults in one, the answers that clients had in another.
//!
//! Each line is written whole and at once, so what is there when the program dies is sound. Instants are seconds since the epoch by this machine's clock, which the
//! database's is too.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use sched_runtime::clock;
use serde_json::{Value, json};

/// Seconds since the epoch.
pub(crate) fn now() -> f64 {
    clock::wall().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A file of JSON lines.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: Mutex<(File, usize)>,
}

impl Lines {
    /// An empty file.
    pub(crate) fn create(path: PathBuf) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("failed to create {}", path.display()))?;
        Ok(Self { path, file: Mutex::new((file, 0)) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many lines there are.
    pub(crate) fn count(&self) -> usize {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Adds a line.
    pub(crate) fn add(&self, line: &Value) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.1 += 1;
        if let Err(error) = file.0.write_all(format!("{line}\n").as_bytes()) {
            // A line that is missing would pass for something that did not happen.
            panic!("cannot write {}: {error}", self.path.display());
        }
    }

    /// Adds a fault that is over.
    pub(crate) fn fault(&self, kind: &str, target: &str, began: f64, detail: &str) {
        self.add(&json!({"kind": kind, "target": target, "began": began, "ended": now(), "detail": detail}));
    }
}
