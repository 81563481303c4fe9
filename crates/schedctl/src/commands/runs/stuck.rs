//! `runs reset-stuck`: having the leader end attempts that nobody ends, or saying which those are. `maintenance reset-stuck` is the same.
//!
//! The leader does it later than it is asked, and events tell what came of it; a dry run asks it nothing, and is answered by the API.

use clap::Args;
use sched_runtime::exit;
use sched_wire::{ResetStuckRequest, RunStatus, SchedulerInstance, StuckAttempt, StuckAttempts};

use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::{Column, neutral, or_dash, tell, time};

#[derive(Debug, Args)]
pub(crate) struct ResetStuckArgs {
    /// Change nothing; list the attempts that would be ended, and what would become of their runs
    #[arg(long)]
    dry_run: bool,
}

const LIST: &[Column<StuckAttempt>] = &[
    Column::new("RUN", |stuck| stuck.run_id.to_string()),
    Column::new("JOB", |stuck| or_dash(stuck.job.as_deref())),
    Column::new("ATTEMPT", |stuck| stuck.attempt.to_string()),
    Column::new("CLAIMED", |stuck| time(stuck.claimed_at)),
    Column::new("WORKER", |stuck| stuck.hostname.clone().unwrap_or_else(|| stuck.worker_id.to_string())),
    Column::new("WHY", |stuck| stuck.reason.to_string()),
    Column::new("BECOMES", |stuck| stuck.becomes.to_string()),
    Column::wide("TENANT", |stuck| stuck.tenant.clone()),
    Column::wide("WORKER ID", |stuck| stuck.worker_id.to_string()),
];

pub(crate) async fn reset(args: ResetStuckArgs, session: &Session) -> CommandResult {
    let ResetStuckArgs { dry_run } = args;
    let (api, path) = (session.api()?, ["maintenance", "reset-stuck"]);
    let request = ResetStuckRequest { dry_run };
    if !dry_run {
        let leader: SchedulerInstance = api.post(&path, None, &request).await?;
        tell(&format!(
            "the leader, {} (process {}), was asked to look for lost attempts",
            neutral::line(&leader.hostname),
            leader.pid
        ));
        return Ok(exit::OK);
    }
    let found: StuckAttempts = api.post(&path, None, &request).await?;
    tell(&summary(&found));
    if found.has_leader == Some(false) {
        tell("no scheduler leads, so that nobody would end them: start one, or wait until one takes over");
    }
    session.output.items(&found, &found.attempts, LIST, "")?;
    Ok(exit::OK)
}

/// How many there are, and what would become of them.
fn summary(found: &StuckAttempts) -> String {
    let again = found.attempts.iter().filter(|stuck| stuck.becomes == RunStatus::Waiting).count();
    let at_least = if found.count_is_at_least { "at least " } else { "" };
    format!(
        "{at_least}{} attempts are stuck; the runs of {again} would wait to be run again; nothing was changed",
        found.count
    )
}
