//! `runs reset-stuck` and `maintenance reset-stuck`. The leader works asynchronously; events report
//! the result. The API answers a dry run.

use clap::Args;
use sched_runtime::exit;
use sched_wire::{ResetStuckRequest, RunStatus, SchedulerInstance, StuckAttempt, StuckAttempts};

use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::{Column, List, neutral, or_dash, print_notice, time};

#[derive(Debug, Args)]
pub(crate) struct ResetStuckArgs {
    /// Change nothing; list the attempts that would end, with the next status of their runs
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
        print_notice(&format!(
            "requested a search for lost attempts of the leader {} (process {})",
            neutral::line(&leader.hostname),
            leader.pid
        ));
        return Ok(exit::OK);
    }
    let found: StuckAttempts = api.post(&path, None, &request).await?;
    print_notice(&summary(&found));
    if found.has_leader == Some(false) {
        print_notice(
            "no scheduler leads, so they are not ended: start a scheduler, or wait until a standby takes over",
        );
    }
    session.output.items(&found, List { items: &found.attempts, columns: LIST, nothing: "" })?;
    Ok(exit::OK)
}

fn summary(found: &StuckAttempts) -> String {
    let again = found.attempts.iter().filter(|stuck| stuck.becomes == RunStatus::Waiting).count();
    let at_least = if found.count_is_at_least { "at least " } else { "" };
    format!(
        "{at_least}{} attempts are stuck; {again} of their runs would be retried; nothing was changed",
        found.count
    )
}
