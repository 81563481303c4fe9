//! Waits for the end of a run.
//!
//! The event stream of the run reports its end at once. Polls cover the time before the stream is
//! open, an API that opens no more streams, and a stream that an open transaction holds up.

use std::time::Duration;

use anyhow::anyhow;
use sched_runtime::exit::ExitError;
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{
    EventStreamQuery, EventType, Page, PageQuery, Run, RunExplanation, RunStatus, StreamMessage,
};
use uuid::Uuid;

use crate::api::{Api, ApiError, Events};
use crate::commands::operations::events::ENDS;
use crate::failure::too_late;
use crate::output::{neutral, print_notice};

/// The first poll; each later one waits twice as long, up to [`LOOK_EVERY`].
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A run that has not started by then gets a report of the reasons.
const PATIENCE: Duration = Duration::from_secs(3);

/// Checks the permission before a command with `--wait` acts. Otherwise a successful command would
/// end as a rejected one.
pub(super) async fn may_wait(api: &Api) -> Result<(), ExitError> {
    let query = PageQuery { limit: Some(1), cursor: None };
    let page: Result<Page<Run>, ApiError> = api.get(&["runs"], &query).await;
    if page.is_err() {
        print_notice("--wait could not read runs; nothing was done");
    }
    page?;
    Ok(())
}

async fn print_waits(api: &Api, id: &str) {
    let explained = api.get::<RunExplanation>(&["runs", id, "explain"], &()).await;
    for wait in explained.map(|explained| explained.run.waits_for).unwrap_or_default() {
        print_notice(&format!("it waits: {}", neutral::line(&wait.text)));
    }
}

/// Reports why the run waits if it has not started after a while.
pub(super) async fn await_end(api: &Api, id: Uuid, limit: Duration) -> Result<Run, ExitError> {
    match tokio::time::timeout(limit, end_of(api, id)).await {
        Ok(ended) => Ok(ended?),
        Err(_elapsed) => Err(too_late(anyhow!(
            "run {id} has not ended within {}; it continues, see `schedctl runs explain {id}`",
            humantime::format_duration(limit)
        ))),
    }
}

async fn end_of(api: &Api, id: Uuid) -> Result<Run, ApiError> {
    let text = id.to_string();
    let query = EventStreamQuery {
        run: Some(id),
        event_type: Some(ENDS.map(EventType::as_str).join(",")),
        ..EventStreamQuery::default()
    };
    let (began, mut is_explained, mut pause) = (monotonic(), false, FIRST_LOOK);
    let mut opening = Some(Box::pin(api.events(&["events", "stream"], &query)));
    let mut stream: Option<Events> = None;
    loop {
        // Also after the stream was opened: the run may have ended before.
        let run: Run = api.get(&["runs", &text], &()).await?;
        if run.status.is_final() {
            return Ok(run);
        }
        if !is_explained && run.status == RunStatus::Waiting && began.elapsed() > PATIENCE {
            is_explained = true;
            print_waits(api, &text).await;
        }
        tokio::select! {
            opened = some(opening.as_mut()) => {
                opening = None;
                // Without a stream, polling finds the end.
                stream = opened.ok();
            }
            is_open = next_end(stream.as_mut()) => {
                if !is_open {
                    stream = None;
                    opening = Some(Box::pin(api.events(&["events", "stream"], &query)));
                    tokio::time::sleep(pause).await;
                }
            }
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LOOK_EVERY),
        }
    }
}

async fn some<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Returns at the next event; false once the stream is over.
async fn next_end(stream: Option<&mut Events>) -> bool {
    let Some(stream) = stream else { return std::future::pending().await };
    loop {
        match stream.next::<StreamMessage>().await {
            Ok(Some((_, StreamMessage::Event(_)))) => return true,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return false,
        }
    }
}
