//! Prints a line for each run that ends. Events while the API is unavailable are not printed.

use std::convert::Infallible;
use std::time::Duration;

use sched_model::domain::built_in;
use sched_wire::{Event, EventStreamQuery, EventType, RunStatus, StreamMessage};
use serde_json::Value;

use super::log::Log;
use crate::api::Api;
use crate::output::duration;

const AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(super) async fn print_events(api: &Api, log: Log) -> Infallible {
    let types =
        [EventType::ScheduleExecutionCompleted, EventType::ScheduleExecutionLost].map(EventType::as_str);
    let mut query = EventStreamQuery { event_type: Some(types.join(",")), ..EventStreamQuery::default() };
    loop {
        if let Ok(mut events) = api.events(&["events", "stream"], &query).await {
            while let Ok(Some((_, message))) = events.next::<StreamMessage>().await {
                if let StreamMessage::Event(event) = &message
                    && let Some(line) = line(event)
                {
                    log.print(&line);
                }
            }
            query.after = events.position().map(str::to_owned).or(query.after);
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// `None` for successful built-in jobs.
fn line(event: &Event) -> Option<String> {
    let text = |field: &str| event.data.get(field).and_then(Value::as_str);
    let job = text("job_name")?;
    let becomes = text("run_status")?.parse::<RunStatus>().ok()?;
    let took = event
        .data
        .get("duration_ms")
        .and_then(Value::as_i64)
        .map(|took| format!(" after {}", duration(took)));
    let took = took.unwrap_or_default();
    if becomes == RunStatus::Succeeded {
        return (!built_in::is_reserved(job)).then(|| format!("{job}: succeeded{took}."));
    }
    let how = match text("status") {
        Some(status) => status.to_lowercase(),
        None => "lost".to_owned(),
    };
    let why = text("error").or_else(|| text("reason")).map(|why| format!(": {why}")).unwrap_or_default();
    let next = match becomes {
        RunStatus::Waiting => "; it will be retried",
        RunStatus::DeadLetter => "; no retries left, see `schedctl dead-letters list`",
        _ => "",
    };
    Some(format!("{job}: {how}{took}{why}{next}."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_that_ends_is_told_on_one_line() {
        for (data, told) in [
            (
                json!({"job_name": "often", "status": "succeeded", "run_status": "succeeded", "duration_ms": 3}),
                Some("often: succeeded after 3ms."),
            ),
            (
                json!({"job_name": "fails", "status": "failed", "run_status": "waiting", "duration_ms": 1200, "error": "exit code 1"}),
                Some("fails: failed after 1.2s: exit code 1; it will be retried."),
            ),
            (
                json!({"job_name": "fails", "run_status": "dead_letter", "reason": "worker_lost"}),
                Some("fails: lost: worker_lost; no retries left, see `schedctl dead-letters list`."),
            ),
            (
                json!({"job_name": "sched.clean", "status": "succeeded", "run_status": "succeeded", "duration_ms": 3}),
                None,
            ),
            (json!({"job_name": "often"}), None),
        ] {
            let event = json!({
                "id": "1.2.3.4", "type": "schedule_execution_completed", "at": "2026-11-22T12:00:00Z", "project_id": null, "job_id": null,
                "run_id": null, "is_installation": false, "data": data,
            });
            assert_eq!(line(&serde_json::from_value(event).unwrap()).as_deref(), told, "{data}");
        }
    }
}
