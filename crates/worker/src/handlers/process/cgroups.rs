//! Bounds of memory, processor time and processes, kept by the kernel's control groups, version 2 or 1.
//!
//! Looked for once, when the worker starts ([`Cgroups::look`]): which controllers there are, and whether groups can be made for them. An
//! attempt that asks for a limit gets a group of its own in each hierarchy that is needed ([`leaf`]), which its program enters before it
//! becomes the program; everything it starts is in it. An attempt that asks for what is not there is refused: nothing
//! runs unbounded that was to be bounded. What keeps a program in its group and within its limits are the rights to the group's files, which
//! belong to the worker's user: a program of another user (`run_as`) cannot leave, one of the worker's own user can, if it means to. Attempts without limits get no group, which would cost as much as a short program itself.
//!
//! Groups are named after the worker process. Those of a worker that was killed are emptied and removed by the next one that starts with
//! the same group above them.

mod leaf;
mod probe;

use std::path::PathBuf;

use sched_model::domain::handler_config::ResourceLimits;
use uuid::Uuid;

pub(super) use leaf::{Entrance, Leaf, tidy};

/// How the names of our groups begin.
const PREFIX: &str = "sched-";

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Cpu,
    Pids,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    /// Its name in the kernel's files.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }

    /// Whether a limit needs it.
    fn is_needed(self, limits: &ResourceLimits) -> bool {
        match self {
            Self::Memory => limits.memory_bytes.is_some(),
            Self::Cpu => limits.cpu_percent.is_some(),
            Self::Pids => limits.pids.is_some(),
        }
    }
}

/// The interface of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A controller for which groups can be made, and below which group.
#[derive(Debug, Clone)]
struct Usable {
    controller: Controller,
    version: Version,
    base: PathBuf,
}

/// What control groups can do for this worker.
#[derive(Debug)]
pub(super) struct Cgroups {
    usable: Vec<Usable>,
    /// Why the others cannot be used.
    missing: Vec<String>,
    /// Marks the worker process, see [`crate::handlers::process::orphans`].
    mark: String,
}

/// A limit cannot be kept on this machine.
#[derive(Debug, thiserror::Error)]
pub(super) enum LimitError {
    #[error(
        "the limits of the function cannot be kept on this worker, which has no control group for {what}: {why}"
    )]
    Unavailable { what: &'static str, why: String },
    #[error("failed to make the control group {group}", group = group.display())]
    Group { group: PathBuf, source: std::io::Error },
}

impl Cgroups {
    /// Looks what there is below `root`, a path as `/proc/self/cgroup` has them; the worker's own group if there is none. `mark` marks
    /// this process ([`crate::handlers::process::orphans`]).
    pub(super) fn look(root: Option<&str>, mark: &str) -> Self {
        let (usable, missing) = probe::look(root, &mark.replace(':', "_"));
        let found = Self { usable, missing, mark: mark.to_owned() };
        found.remove_those_of_dead_workers();
        found
    }

    /// Which limits can be kept, for the log.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.usable.iter().map(|one| one.controller.name()).collect()
    }

    /// Why the other limits cannot be kept.
    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Makes the groups of an attempt; `None` if it asks for no limit.
    pub(super) fn make(
        &self,
        execution_id: Uuid,
        limits: Option<&ResourceLimits>,
    ) -> Result<Option<Leaf>, LimitError> {
        let Some(limits) = limits.filter(|limits| !limits.is_empty()) else { return Ok(None) };
        let name = format!("{PREFIX}{}-{}", self.mark.replace(':', "_"), execution_id.simple());
        let mut wanted = Vec::new();
        for controller in Controller::ALL.into_iter().filter(|one| one.is_needed(limits)) {
            match self.usable.iter().find(|usable| usable.controller == controller) {
                Some(usable) => wanted.push(usable.clone()),
                None => {
                    return Err(LimitError::Unavailable {
                        what: controller.name(),
                        why: self.missing.join("; "),
                    });
                }
            }
        }
        Leaf::make(&wanted, &name, limits).map(Some)
    }

    fn remove_those_of_dead_workers(&self) {
        for usable in &self.usable {
            let Ok(entries) = std::fs::read_dir(&usable.base) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let worker = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
                if worker.is_some_and(|(worker, _)| {
                    crate::handlers::process::orphans::is_mark_of_dead_worker(
                        &worker.replace('_', ":"),
                        &self.mark,
                    )
                }) {
                    // What remains is left to the next one.
                    let is_gone = leaf::empty_and_remove(&path);
                    tracing::info!(cgroup = %path.display(), is_gone, "Cleared a control group of a dead worker.");
                }
            }
        }
    }
}
