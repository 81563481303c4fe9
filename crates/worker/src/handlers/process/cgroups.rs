//! Limits of memory, CPU time and processes, enforced by control groups of the kernel, version 2 or
//! 1.
//!
//! [`Cgroups::probe`] checks once which controllers are usable. An attempt with limits gets its own
//! group in each needed hierarchy ([`attempt_groups`]). The child enters the group before it
//! executes the program, so all descendants are in the group too. An attempt that requests an
//! unavailable limit is rejected. Attempts without limits get no group, which would cost as much as
//! a short program.
//!
//! The group's files belong to the worker's user. So a program of another user (`run_as`) cannot
//! leave; a program of the worker's own user can leave on purpose.
//!
//! Group names contain the identity of the worker process. The next worker with the same parent
//! group removes the groups of a killed worker.

mod attempt_groups;
mod probe;

use std::path::PathBuf;

use sched_model::domain::handler_config::ResourceLimits;
use uuid::Uuid;

pub(super) use attempt_groups::{AttemptGroups, Entrance, clean_up};

const PREFIX: &str = "sched-";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Cpu,
    Pids,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }

    fn is_needed(self, limits: &ResourceLimits) -> bool {
        match self {
            Self::Memory => limits.memory_bytes.is_some(),
            Self::Cpu => limits.cpu_percent.is_some(),
            Self::Pids => limits.pids.is_some(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

#[derive(Debug, Clone)]
struct Usable {
    controller: Controller,
    version: Version,
    base: PathBuf,
}

#[derive(Debug)]
pub(super) struct Cgroups {
    usable: Vec<Usable>,
    /// Why the other controllers are unusable.
    missing: Vec<String>,
    /// See [`crate::handlers::process::orphans`].
    mark: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LimitError {
    #[error(
        "the limits of the function cannot be enforced on this worker, which has no control group for {what}: {why}"
    )]
    Unavailable { what: &'static str, why: String },
    #[error("failed to create the control group {group}", group = group.display())]
    Group { group: PathBuf, source: std::io::Error },
}

impl Cgroups {
    /// `root` is a path in the form of `/proc/self/cgroup`; the default is the worker's own group.
    /// `mark` marks this process ([`crate::handlers::process::orphans`]).
    pub(super) fn probe(root: Option<&str>, mark: &str) -> Self {
        let (usable, missing) = probe::usable_controllers(root, &mark.replace(':', "_"));
        let found = Self { usable, missing, mark: mark.to_owned() };
        found.remove_groups_of_dead_workers();
        found
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.usable.iter().map(|one| one.controller.name()).collect()
    }

    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// `None` if the attempt has no limits.
    pub(super) fn create(
        &self,
        attempt_id: Uuid,
        limits: Option<&ResourceLimits>,
    ) -> Result<Option<AttemptGroups>, LimitError> {
        let Some(limits) = limits.filter(|limits| !limits.is_empty()) else { return Ok(None) };
        let name = format!("{PREFIX}{}-{}", self.mark.replace(':', "_"), attempt_id.simple());
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
        AttemptGroups::create(&wanted, &name, limits).map(Some)
    }

    fn remove_groups_of_dead_workers(&self) {
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
                    // The next worker removes the rest.
                    let is_gone = attempt_groups::empty_and_remove(&path);
                    tracing::info!(cgroup = %path.display(), is_gone, "cleared control group of a dead worker");
                }
            }
        }
    }
}
