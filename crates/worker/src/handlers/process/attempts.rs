//! Which attempts run in this operating system process, and which process is the program of each.
//!
//! The children of a process belong to the process, not to the [`super::ProcessHandler`] that started them; so this
//! table is global, and two handlers in one process (tests, several workers in one binary) do not take each other's
//! programs for strays. A program is in the table before anyone can see it: [`start`] holds a read lock from before the
//! fork until the entry is made, and [`while_none_starts`] gives those who judge unknown children a view without gaps.
//! Locks are held for one fork or one look at `/proc`, never across an await. A poisoned lock is taken over: every
//! single change leaves the table whole.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use uuid::Uuid;

use super::procfs::Identity;

static STARTING: RwLock<()> = RwLock::new(());
static RUNNING: Mutex<BTreeMap<Uuid, Identity>> = Mutex::new(BTreeMap::new());

/// An attempt in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Its id, which marks the environment of its processes.
    pub(super) execution_id: Uuid,
    /// Its program.
    pub(super) program: Identity,
}

/// Keeps an attempt in the table until it is dropped.
#[derive(Debug)]
pub(super) struct Registration(Uuid);

impl Drop for Registration {
    fn drop(&mut self) {
        table().remove(&self.0);
    }
}

fn table() -> MutexGuard<'static, BTreeMap<Uuid, Identity>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the program of an attempt and enters it into the table.
pub(super) fn start<T>(
    execution_id: Uuid,
    spawn: impl FnOnce() -> io::Result<(T, Identity)>,
) -> io::Result<(T, Registration)> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let (spawned, program) = spawn()?;
    table().insert(execution_id, program);
    Ok((spawned, Registration(execution_id)))
}

/// Runs `look` while no program is being started.
pub(super) fn while_none_starts<T>(look: impl FnOnce() -> T) -> T {
    let _still = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    look()
}

/// All attempts in the table.
pub(super) fn running() -> Vec<Attempt> {
    table().iter().map(|(id, program)| Attempt { execution_id: *id, program: *program }).collect()
}
