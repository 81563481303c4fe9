//! Cancelling dispatches, and running finished ones again.
//!
//! Each command may be given again: what is done already is answered as done.

use sched_runtime::exit;
use sched_wire::{CancelState, Cancelled, Dispatch, DispatchStatus, JobCancelled, ReasonRequest, Triggered};
use serde::Serialize;
use serde_json::Map;
use uuid::Uuid;

use crate::commands::runs::WaitArgs;
use crate::commands::{Session, jobs, runs};
use crate::failure::CommandResult;
use crate::output::{Column, tell};

const CANCELLED: &[Column<Cancelled>] = &[
    Column::new("Dispatch", |cancelled| cancelled.dispatch_id.to_string()),
    Column::new("Cancelled", |cancelled| match cancelled.state {
        CancelState::Cancelled => "yes".to_owned(),
        CancelState::Requested => "requested: its worker stops it".to_owned(),
    }),
    Column::new("Status", |cancelled| cancelled.status.to_string()),
];

/// What became of all dispatches of a job.
#[derive(Debug, Default, Serialize)]
struct AllCancelled {
    cancelled: usize,
    requested: usize,
}

const ALL_CANCELLED: &[Column<AllCancelled>] = &[
    Column::new("Cancelled", |all| all.cancelled.to_string()),
    Column::new("Requested", |all| all.requested.to_string()),
];

/// Cancels a dispatch.
pub(crate) async fn dispatch(
    id: Uuid,
    reason: Option<String>,
    wait: &WaitArgs,
    session: &Session,
) -> CommandResult {
    let api = session.api()?;
    let text = id.to_string();
    if wait.wait {
        jobs::may_wait(&api).await?;
    }
    let cancelled: Cancelled =
        api.post(&["dispatches", &text, "cancel"], None, &ReasonRequest { reason }).await?;
    if !wait.wait {
        session.output.record(&cancelled, CANCELLED)?;
        return Ok(exit::OK);
    }
    if cancelled.state == CancelState::Requested {
        tell("its worker stops it; waiting for its end");
    }
    let dispatch = jobs::await_end(&api, id, wait.wait_timeout).await?;
    ended(dispatch, DispatchStatus::Cancelled, session)
}

/// Runs the dispatch of the thing below `path` again.
pub(crate) async fn retry(path: &[&str], id: Uuid, wait: &WaitArgs, session: &Session) -> CommandResult {
    let api = session.api()?;
    let text = id.to_string();
    let path: Vec<&str> = path.iter().copied().chain([text.as_str(), "retry"]).collect();
    if wait.wait {
        jobs::may_wait(&api).await?;
    }
    let retried: Triggered = api.post(&path, None, &Map::new()).await?;
    if !wait.wait {
        session.output.record(&retried, jobs::TRIGGERED)?;
        return Ok(exit::OK);
    }
    tell(&format!("waiting for dispatch {}", retried.dispatch_id));
    let dispatch = jobs::await_end(&api, retried.dispatch_id, wait.wait_timeout).await?;
    ended(dispatch, DispatchStatus::Completed, session)
}

fn ended(dispatch: Dispatch, wanted: DispatchStatus, session: &Session) -> CommandResult {
    let is_as_wanted = dispatch.status == wanted;
    session.output.row(&dispatch, runs::DISPATCHES)?;
    Ok(if is_as_wanted { exit::OK } else { exit::FAILURE })
}

/// Cancels whatever of a job waits or runs, request by request until there is nothing more.
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
