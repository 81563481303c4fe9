//! The optional peers graphile-worker and pg-boss, on the same server in the same run.
//!
//! `npm` installs fixed versions into a folder beside the results. `peers/*.mjs` uses the settings
//! that their documentation recommends. A peer that cannot be installed or run fails the row.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::figures::{Reference, median, percentile, smallest};
use crate::workspace::Workspace;

/// The versions of their dependencies are not fixed.
const PACKAGES: [&str; 4] = ["node@22", "graphile-worker@0.18.0", "pg-boss@12.35.0", "pg@8.23.1"];

const FILES: [(&str, &str); 3] = [
    ("measure.mjs", include_str!("../../peers/measure.mjs")),
    ("graphile-worker.mjs", include_str!("../../peers/graphile-worker.mjs")),
    ("pg-boss.mjs", include_str!("../../peers/pg-boss.mjs")),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// graphile-worker: `default` or `tuned`.
    Graphile(&'static str),
    /// pg-boss: `tuned` or `notify`.
    PgBoss(&'static str),
}

impl Task {
    const fn script(self) -> &'static str {
        match self {
            Self::Graphile(_) => "graphile-worker.mjs",
            Self::PgBoss(_) => "pg-boss.mjs",
        }
    }

    const fn settings(self) -> &'static str {
        match self {
            Self::Graphile(settings) | Self::PgBoss(settings) => settings,
        }
    }

    fn label(self) -> String {
        format!("{}, same run", self.name())
    }

    fn name(self) -> String {
        let name = match self {
            Self::Graphile(_) => "graphile-worker 0.18.0",
            Self::PgBoss(_) => "pg-boss 12.35.0",
        };
        format!("{name}, {}", self.settings())
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) task: Task,
    pub(super) count: usize,
}

#[derive(Debug)]
pub(crate) struct Peers {
    folder: PathBuf,
}

impl Peers {
    pub(crate) async fn install(into: &Path) -> anyhow::Result<Self> {
        let folder = into.join("peers");
        std::fs::create_dir_all(&folder)?;
        for (name, text) in FILES {
            std::fs::write(folder.join(name), text)?;
        }
        let folder = folder.canonicalize()?;
        if !folder.join("node_modules/.package-lock.json").is_file() {
            std::fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
            eprintln!("installing the peers …");
            let output = Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent"])
                .args(PACKAGES)
                .current_dir(&folder)
                .stdin(Stdio::null())
                .output()
                .await
                .context("failed to run npm; --peers needs it")?;
            ensure!(
                output.status.success(),
                "npm failed to install the peers: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(Self { folder })
    }

    /// Jobs per second of a drain, the median of some runs.
    pub(super) async fn drain(
        &self,
        workspace: &Workspace,
        load: Load,
        runs: usize,
    ) -> anyhow::Result<Reference> {
        let mut rates = Vec::new();
        for _ in 0..runs {
            let answer = self.run(workspace, load, "drain").await?;
            rates.push(
                answer.get("rate").and_then(Value::as_f64).with_context(|| format!("no rate in {answer}"))?,
            );
        }
        Ok(Reference::value(load.task.label(), median(&rates)))
    }

    /// The shortest 99th percentile of the wait for a handler, in milliseconds, over the best run
    /// of each peer. The second value has every wait of each peer.
    pub(super) async fn best_start_p99(
        &self,
        workspace: &Workspace,
        count: usize,
        runs: usize,
    ) -> anyhow::Result<(Reference, Vec<(String, Vec<f64>)>)> {
        let mut best: Option<(f64, Task)> = None;
        let mut all = Vec::new();
        for task in [Task::Graphile("default"), Task::PgBoss("notify")] {
            let (mut p99, mut of_task) = (Vec::new(), Vec::new());
            for _ in 0..runs {
                let answer = self.run(workspace, Load { task, count }, "start").await?;
                let values = answer.get("waits").and_then(Value::as_array).into_iter().flatten();
                let waits: Vec<f64> = values.filter_map(Value::as_f64).collect();
                ensure!(waits.len() == count, "{} reported {} of {count} waits", task.label(), waits.len());
                p99.push(percentile(&waits, 0.99));
                of_task.extend(waits);
            }
            all.push((task.name(), of_task));
            let p99 = smallest(&p99);
            if best.is_none_or(|(least, _)| p99 < least) {
                best = Some((p99, task));
            }
        }
        let (p99, task) = best.context("no peer was measured")?;
        Ok((Reference::value(task.label(), p99), all))
    }

    async fn run(&self, workspace: &Workspace, load: Load, argument: &str) -> anyhow::Result<Value> {
        let Load { task, count } = load;
        let url = workspace.empty_database().await?;
        let output = Command::new(self.folder.join("node_modules/.bin/node"))
            .args([task.script(), argument, task.settings(), &count.to_string(), &url])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("failed to run node")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {errors}", task.label());
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(text.trim()).with_context(|| format!("no answer in {text:?}, {errors}"))
    }
}
