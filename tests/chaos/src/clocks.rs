//! Clocks that are wrong: one daemon of each kind has a wall clock of its own, which steps when it is told to, while the others and the database have the
//! machine's.
//!
//! libfaketime, preloaded into these daemons alone, answers them when they ask for the time of day; what they measure intervals with stays as it is. How far
//! a clock is ahead stands in a file, which is looked at once a second. Where the library is missing, no clock is wrong, and that is said. Its shared memory, which a
//! process that is killed leaves behind, is removed with the process.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::{Kind, Target};

/// The daemons that have clocks of their own: the second of each kind.
const NUMBER: usize = 1;
/// Where distributions put the library, for programs of several threads.
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
    /// Clocks whose files lie in `folder`; `None` where there is no library for them.
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

    /// Settings of a daemon, if it has a clock of its own, which is right for the time being.
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

    /// Puts the clock of a daemon so many seconds ahead.
    pub(crate) fn set(&self, name: &str, seconds: i64) -> anyhow::Result<()> {
        // Replaced whole: it may be read at any time.
        let (file, new) = (self.file(name), self.folder.join(format!("{name}.new")));
        fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(fs::rename(new, file)?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Removes what the clock of a process that has ended leaves.
pub(crate) fn forget(process: i32) {
    for left in [format!("/dev/shm/faketime_shm_{process}"), format!("/dev/shm/sem.faketime_sem_{process}")] {
        // Most processes have no such clock.
        drop(fs::remove_file(left));
    }
}
