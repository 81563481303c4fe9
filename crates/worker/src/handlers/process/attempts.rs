//! The running attempts of this operating system process, with the program of each.
//!
//! Children belong to the process, not to a [`super::ProcessHandler`], so this table is global. A
//! program is in the table before any reader can see it: [`start`] holds a read lock from before
//! the fork until it has inserted the entry, and [`while_none_starts`] gives the search for orphans
//! a complete view. Locks are held for one fork or one scan of `/proc`, never across an await. A
//! poisoned lock is taken over: every single change leaves the table consistent.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use uuid::Uuid;

use super::procfs::Identity;

static STARTING: RwLock<()> = RwLock::new(());
static RUNNING: Mutex<BTreeMap<Uuid, Identity>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) attempt_id: Uuid,
    pub(super) program: Identity,
}

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

pub(super) fn start<T>(
    attempt_id: Uuid,
    spawn: impl FnOnce() -> io::Result<(T, Identity)>,
) -> io::Result<(T, Registration)> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let (spawned, program) = spawn()?;
    table().insert(attempt_id, program);
    Ok((spawned, Registration(attempt_id)))
}

pub(super) fn while_none_starts<T>(look: impl FnOnce() -> T) -> T {
    let _still = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    look()
}

pub(super) fn running() -> Vec<Attempt> {
    table().iter().map(|(id, program)| Attempt { attempt_id: *id, program: *program }).collect()
}
