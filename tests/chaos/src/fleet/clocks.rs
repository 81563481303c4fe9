//! Wrong clocks: one daemon of each kind has its own wall clock, which steps on command. The other
//! daemons and the database use the machine's clock.
//!
//! libfaketime, preloaded into these daemons only, answers their queries for the time of day; the
//! monotonic clock, which they use for intervals, is unchanged. A file contains the offset of each
//! clock, and the library reads it once a second. Without the library no clock is wrong, and the
//! run reports this. The library's shared memory, which a killed process leaves behind, is removed
//! with the process.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::{Kind, Target};

/// The daemons with their own clocks: the second of each kind.
const NUMBER: usize = 1;
/// Paths of the multi-threaded library in distributions.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The clocks of a run.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    library: PathBuf,
    folder: PathBuf,
}

impl Clocks {
    /// Clocks with their files in `folder`; `None` without the library.
    pub(crate) fn find(folder: PathBuf) -> anyhow::Result<Option<Self>> {
        let Some(library) = LIBRARIES.iter().map(Path::new).find(|path| path.is_file()) else {
            return Ok(None);
        };
        fs::create_dir_all(&folder)?;
        Ok(Some(Self { library: library.to_owned(), folder }))
    }

    /// The daemon of a kind whose clock can be wrong.
    pub(crate) fn target(kind: Kind) -> Target {
        Target { kind, number: NUMBER }
    }

    /// Environment of a daemon, if it has its own clock, which is right at first.
    pub(crate) fn settings(&self, target: Target, name: &str) -> anyhow::Result<Vec<(&'static str, String)>> {
        if target.number != NUMBER {
            return Ok(Vec::new());
        }
        self.set(name, 0)?;
        Ok(vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file(name).display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ])
    }

    /// Sets the clock of a daemon ahead by this number of seconds.
    pub(crate) fn set(&self, name: &str, seconds: i64) -> anyhow::Result<()> {
        // Replaced atomically, because the library may read it at any time.
        let (file, new) = (self.file(name), self.folder.join(format!("{name}.new")));
        fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(fs::rename(new, file)?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Removes the shared memory that the clock of an ended process leaves behind.
pub(crate) fn forget(process: i32) {
    for left in [format!("/dev/shm/faketime_shm_{process}"), format!("/dev/shm/sem.faketime_sem_{process}")] {
        // Most processes have no such clock.
        drop(fs::remove_file(left));
    }
}
