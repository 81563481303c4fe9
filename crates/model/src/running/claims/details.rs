//! Details of a run that most native functions do not need.
//!
//! They cost two lookups by key, so the claim reads them only for handlers of other types, and for
//! native functions that request them in their configuration.

use serde::Deserialize;
use serde_json::Value;

use sched_domain::job::{RunDetails, schedule_text};

#[derive(Deserialize)]
struct Stored {
    tenant: String,
    project: Option<String>,
    queue: String,
    user: Option<String>,
    schedule_config: Value,
}

/// `None` if the claim did not read the details.
pub(super) fn read(stored: Option<Value>) -> Option<Box<RunDetails>> {
    let stored = serde_json::from_value(stored?);
    let Stored { tenant, project, queue, user, schedule_config } = stored
        .inspect_err(|error| tracing::error!(%error, "the details of a claimed run are unreadable"))
        .ok()?;
    let schedule = schedule_text(&schedule_config);
    Some(Box::new(RunDetails { tenant, project, queue, user, schedule }))
}
