//! `jobs trigger` and `runs create`.

use std::time::Duration;

use clap::Args;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{RunStatus, TriggerRequest, Triggered};
use serde_json::{Map, Value};

use super::RUNS;
use super::waiting::{await_end, may_wait};
use crate::api::{Api, ApiError};
use crate::commands::Session;
use crate::failure::{CommandResult, usage};
use crate::output::{Column, neutral, print_notice};
use crate::values::duration;

#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    /// Name or id of the job
    pub(crate) name: String,
    /// Arguments of this run instead of those of the job, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Key of the request: repeating the trigger with the same key creates no second run
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait for the end of the run; exit code 1 unless it succeeded
    #[arg(long)]
    pub(crate) wait: bool,
    /// Maximum wait of --wait
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) wait_timeout: Duration,
}

pub(super) const TRIGGERED: &[Column<Triggered>] = &[
    Column::new("Run", |triggered| triggered.run_id.to_string()),
    Column::new("Duplicate", |triggered| triggered.duplicate.to_string()),
];

pub(crate) async fn run(args: TriggerArgs, session: &Session) -> CommandResult {
    let TriggerArgs { name, args, idempotency_key, wait, wait_timeout } = args;
    let request = TriggerRequest { task_args: args.as_deref().map(arguments).transpose()? };
    let api = session.api()?;
    if wait {
        may_wait(&api).await?;
    }
    let triggered = trigger(&api, &name, &request, idempotency_key.as_deref()).await?;
    if !wait {
        session.output.record(&triggered, TRIGGERED)?;
        return Ok(exit::OK);
    }
    print_notice(&format!("waiting for run {}", triggered.run_id));
    let run = await_end(&api, triggered.run_id, wait_timeout).await?;
    let succeeded = run.status == RunStatus::Succeeded;
    let error = run.error_message.clone();
    session.output.row(&run, RUNS)?;
    if let Some(error) = error.filter(|_| !succeeded) {
        print_notice(&format!(
            "it failed: {}; see its output with `schedctl runs logs {}`",
            neutral::line(&error),
            run.id
        ));
    }
    Ok(if succeeded { exit::OK } else { exit::FAILURE })
}

pub(crate) async fn trigger(
    api: &Api,
    name: &str,
    request: &TriggerRequest,
    key: Option<&str>,
) -> Result<Triggered, ApiError> {
    api.post(&["jobs", name, "trigger"], key.map(|key| (sched_wire::IDEMPOTENCY_KEY, key)), request).await
}

fn arguments(text: &str) -> Result<Map<String, Value>, ExitError> {
    serde_json::from_str(text).map_err(|error| {
        usage(
            anyhow::Error::new(error)
                .context("--args must be a JSON object such as '{\"region\": \"north\"}'"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_must_be_an_object() {
        assert_eq!(arguments(r#"{"a": 1}"#).unwrap().len(), 1);
        for bad in ["[1]", "7", "{a: 1}", ""] {
            let error = arguments(bad).unwrap_err();
            assert_eq!(error.code(), exit::USAGE);
            assert!(error.describe().contains("must be a JSON object"), "{}", error.describe());
        }
    }
}
