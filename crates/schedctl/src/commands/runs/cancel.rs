//! Cancels and retries runs. Each command can be repeated: a previous success is a success.

use sched_runtime::exit;
use sched_wire::{CancelState, Cancelled, JobCancelled, ReasonRequest, Run, RunStatus, Triggered};
use serde::Serialize;
use serde_json::Map;
use uuid::Uuid;

use super::args::WaitArgs;
use super::shown::RUNS;
use super::trigger::TRIGGERED;
use super::waiting::{await_end, may_wait};
use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::{Column, print_notice};

const CANCELLED: &[Column<Cancelled>] = &[
    Column::new("Run", |cancelled| cancelled.run_id.to_string()),
    Column::new("Cancelled", |cancelled| match cancelled.state {
        CancelState::Cancelled => "yes".to_owned(),
        CancelState::Requested => "requested: its worker stops it".to_owned(),
    }),
    Column::new("Status", |cancelled| cancelled.status.to_string()),
];

#[derive(Debug, Default, Serialize)]
struct AllCancelled {
    cancelled: usize,
    requested: usize,
}

const ALL_CANCELLED: &[Column<AllCancelled>] = &[
    Column::new("Cancelled", |all| all.cancelled.to_string()),
    Column::new("Requested", |all| all.requested.to_string()),
];

pub(crate) async fn run(
    id: Uuid,
    reason: Option<String>,
    wait: &WaitArgs,
    session: &Session,
) -> CommandResult {
    let api = session.api()?;
    let text = id.to_string();
    if wait.wait {
        may_wait(&api).await?;
    }
    let cancelled: Cancelled = api.post(&["runs", &text, "cancel"], None, &ReasonRequest { reason }).await?;
    if !wait.wait {
        session.output.record(&cancelled, CANCELLED)?;
        return Ok(exit::OK);
    }
    if cancelled.state == CancelState::Requested {
        print_notice("its worker stops it; waiting until it has ended");
    }
    let run = await_end(&api, id, wait.wait_timeout).await?;
    ended(run, RunStatus::Cancelled, session)
}

pub(crate) async fn retry(path: &[&str], id: Uuid, wait: &WaitArgs, session: &Session) -> CommandResult {
    let api = session.api()?;
    let text = id.to_string();
    let path: Vec<&str> = path.iter().copied().chain([text.as_str(), "retry"]).collect();
    if wait.wait {
        may_wait(&api).await?;
    }
    let retried: Triggered = api.post(&path, None, &Map::new()).await?;
    if !wait.wait {
        session.output.record(&retried, TRIGGERED)?;
        return Ok(exit::OK);
    }
    print_notice(&format!("waiting for run {}", retried.run_id));
    let run = await_end(&api, retried.run_id, wait.wait_timeout).await?;
    ended(run, RunStatus::Succeeded, session)
}

fn ended(run: Run, expected: RunStatus, session: &Session) -> CommandResult {
    let is_as_wanted = run.status == expected;
    session.output.row(&run, RUNS)?;
    Ok(if is_as_wanted { exit::OK } else { exit::FAILURE })
}

/// Several requests if needed.
pub(crate) async fn of_job(name: &str, reason: Option<String>, session: &Session) -> CommandResult {
    let api = session.api()?;
    let body = ReasonRequest { reason };
    let mut all = AllCancelled::default();
    loop {
        let page: JobCancelled = api.post(&["jobs", name, "cancel"], None, &body).await?;
        all.cancelled += page.cancelled;
        all.requested += page.requested;
        if !page.has_more || page.cancelled + page.requested == 0 {
            break;
        }
    }
    session.output.record(&all, ALL_CANCELLED)?;
    Ok(exit::OK)
}
