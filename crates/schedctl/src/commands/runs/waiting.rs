//! Waits for the end of a run.

use std::time::Duration;

use anyhow::anyhow;
use sched_runtime::exit::ExitError;
use sched_wire::{Page, PageQuery, Run, RunExplanation, RunStatus};
use uuid::Uuid;

use crate::api::{Api, ApiError};
use crate::failure::too_late;
use crate::output::{neutral, print_notice};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Polls before a report why the run has not started.
const PATIENT_LOOKS: u32 = 6;

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
    let id = id.to_string();
    let wait = async {
        let mut looks = 0_u32;
        loop {
            let run: Run = api.get(&["runs", &id], &()).await?;
            if run.status.is_final() {
                return Ok::<_, ApiError>(run);
            }
            looks += 1;
            if looks == PATIENT_LOOKS && run.status == RunStatus::Waiting {
                print_waits(api, &id).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(limit, wait).await {
        Ok(ended) => Ok(ended?),
        Err(_elapsed) => Err(too_late(anyhow!(
            "run {id} has not ended within {}; it continues, see `schedctl runs explain {id}`",
            humantime::format_duration(limit)
        ))),
    }
}
