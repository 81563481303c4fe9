//! The checks of an installation after a test.

use std::path::Path;

use test_support::wait_for;

use crate::finished_checks::{OF_RUN, OF_STREAM};
use crate::{Effects, Frozen, Installation, PATIENCE, checks, finished, processes};

/// Allowed growth of the open files of a worker: connections to the database.
const SPARE_FILES: usize = 12;

impl Installation {
    /// Checks every invariant that depends only on tables; see `PROTOCOL`, "Invariants".
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub async fn check_invariants(&self) {
        let broken = self.broken_invariants().await;
        assert!(broken.is_empty(), "broken invariants: {broken:#?}");
    }

    pub async fn broken_invariants(&self) -> Vec<String> {
        checks::broken(&self.sql, checks::OF_HISTORY).await
    }

    /// Like [`Self::broken_invariants`], with the violations that the effects of the jobs show.
    pub async fn broken_with_effects(&self, effects: &Effects, frozen: &[Frozen]) -> Vec<String> {
        let mut broken = self.broken_invariants().await;
        broken.extend(effects.broken(&self.sql, frozen).await);
        broken
    }

    /// Checks the invariants, the effects and the machine, once all work is done. A worker has at
    /// most `files` open files.
    ///
    /// # Panics
    /// When a check fails.
    pub async fn check_what_is_left(&mut self, effects: &Effects, frozen: &[Frozen], files: usize) {
        self.check_machine(&effects.mark(), files).await;
        let broken = self.broken_with_effects(effects, frozen).await;
        assert!(broken.is_empty(), "broken: {broken:#?}");
    }

    /// Checks the machine, once all work is done. No process with `mark` in its environment or
    /// command line and no zombie may remain. A worker has at most `files` open files.
    ///
    /// # Panics
    /// When a check fails.
    pub async fn check_machine(&mut self, mark: &str, files: usize) {
        wait_for("no process of any job", PATIENCE, async || match processes::marked(mark) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        })
        .await;
        for worker in &mut self.workers {
            if worker.exited().is_some() {
                continue;
            }
            let worker = worker.id();
            wait_for("the worker to close its files and reap its children", PATIENCE, async || {
                let (zombies, open) = (processes::zombies_of(worker), processes::open_files(worker));
                if zombies.is_empty() && open <= files {
                    Ok(())
                } else {
                    Err(format!("{zombies:?}, {open} files"))
                }
            })
            .await;
        }
    }

    /// Like [`Self::check_machine`], for jobs with private directories in `place`
    /// (`WORKER_TEMP_DIR`). The environment of their processes names such a directory; that of a
    /// worker names only `place`.
    ///
    /// # Panics
    /// When a check fails.
    pub async fn check_machine_below(&mut self, place: &Path, files: usize) {
        self.check_machine(&format!("{}/sched-", place.display()), files).await;
    }

    /// Maximal number of open files of a worker after later work: its present files and new
    /// connections of its pool.
    ///
    /// # Panics
    /// When no worker runs.
    #[must_use]
    pub fn files_of_workers(&self) -> usize {
        let open = self.workers.iter().map(|worker| processes::open_files(worker.id()));
        open.max().expect("a worker runs") + SPARE_FILES
    }

    #[must_use]
    pub fn invariants() -> Vec<&'static str> {
        checks::names().collect()
    }

    /// Creates the empty schema `run` for the data besides the product's tables.
    pub async fn prepare_run(&self) {
        finished::prepare(&self.sql).await;
    }

    /// The violated invariants of a whole run, by the schema `run`.
    pub async fn broken_of_run(&self) -> Vec<String> {
        checks::broken(&self.sql, OF_RUN.iter().chain(OF_STREAM)).await
    }

    #[must_use]
    pub fn invariants_of_run() -> Vec<&'static str> {
        OF_RUN.iter().chain(OF_STREAM).map(|invariant| invariant.name).collect()
    }
}
