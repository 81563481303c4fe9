//! Wrong clocks: one daemon of each kind has its own wall clock, which steps on command. The other
//! daemons and the database use the clock of the machine.
//!
//! libfaketime, preloaded into these daemons only, changes their time of day, not the monotonic
//! clock. It reads the offset from a file once a second. Without the library no clock is wrong, and
//! the run reports this. The library's shared memory, which a killed process leaves behind, is
//! removed with the process.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::{Kind, Target};

/// The second daemon of each kind has its own clock.
const NUMBER: usize = 1;
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    library: PathBuf,
    folder: PathBuf,
}

impl Clocks {
    /// `None` without the library.
    pub(crate) fn find(folder: PathBuf) -> anyhow::Result<Option<Self>> {
        let Some(library) = LIBRARIES.iter().map(Path::new).find(|path| path.is_file()) else {
            return Ok(None);
        };
        fs::create_dir_all(&folder)?;
        Ok(Some(Self { library: library.to_owned(), folder }))
    }

    pub(crate) fn target(kind: Kind) -> Target {
        Target { kind, number: NUMBER }
    }

    /// Environment of a daemon. Its own clock, if any, is right at first.
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

    pub(crate) fn set(&self, name: &str, seconds: i64) -> anyhow::Result<()> {
        // Replaced atomically: the library may read it at any time.
        let (file, new) = (self.file(name), self.folder.join(format!("{name}.new")));
        fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(fs::rename(new, file)?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

pub(crate) fn forget(process: i32) {
    for left in [format!("/dev/shm/faketime_shm_{process}"), format!("/dev/shm/sem.faketime_sem_{process}")] {
        // Most processes have none.
        drop(fs::remove_file(left));
    }
}
