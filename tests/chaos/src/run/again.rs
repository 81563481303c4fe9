//! Checks a kept run folder again, after changes to the checker or to the folder.
//!
//! The ends of daemons and remaining job processes were checked during the run only.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use system_tests::{Effects, FinishedRun, Verdict};

use super::WAKE;
use crate::Cli;
use crate::fleet::Fleet;
use crate::workspace::{BUSY, Workspace};

/// The inputs of the first verdict.
const KNOWN: &str = "SELECT extract(epoch FROM at)::double precision, ARRAY(SELECT name FROM run.pooled ORDER BY name) FROM run.quiet";

/// Checks the run in `folder`, on a separate server.
pub(crate) async fn check(cli: &Cli, folder: &Path) -> anyhow::Result<ExitCode> {
    let dump = folder.join("database.sql");
    ensure!(dump.is_file(), "{} is not the folder of a run: it has no database.sql", folder.display());
    let workspace = Workspace::open(&cli.into.join("again"), false, &BUSY).await?;
    let verdicts = decide(cli, folder, &dump, &workspace).await;
    workspace.close(false).await?;
    let verdicts = verdicts?;
    println!("{}", Verdict::table(&verdicts));
    let holds = verdicts.iter().all(Verdict::holds);
    println!("{}: {}", folder.display(), if holds { "every invariant holds" } else { "BROKEN" });
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn decide(
    cli: &Cli,
    folder: &Path,
    dump: &Path,
    workspace: &Workspace,
) -> anyhow::Result<Vec<Verdict>> {
    let sql = workspace.restore(dump).await?;
    let known = sql.query_one(KNOWN, &[]).await.context("the run ended before its verdict")?;
    let stream = folder.join("stream.jsonl");
    let run = FinishedRun {
        effects: Effects::at(&folder.join("effects"), WAKE),
        timeline: folder.join("timeline.jsonl"),
        answers: folder.join("answers.jsonl"),
        stream: stream.is_file().then_some(stream),
        schedulers: Fleet::schedulers(),
        pooled: known.get(1),
        quiet_at: known.get(0),
        python: cli.python.clone().context("--python is missing")?,
    };
    Ok(run.verdicts(&sql).await)
}
