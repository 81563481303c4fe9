//! `--once`: waiting until every job of the applied files has executed, and checking that.
//!
//! Jobs that fire only when asked are triggered once. The table of attempts goes to standard output; what is missing
//! when the time is up goes into the error. An API that does not answer for a moment, because it was restarted, is asked
//! again until the time is up.

use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, Utc};
use sched_runtime::exit::ExitError;
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{Attempt, AttemptStatus, AttemptsQuery, MAX_PAGE, Status, TriggerRequest};

use super::log::Log;
use super::verdict::{Expectation, Verdict};
use crate::api::{Api, ApiError};
use crate::commands;
use crate::failure::failure;
use crate::manifest::Files;
use crate::output::{Output, neutral};

/// How often the attempts are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The database's clock: runs that ended before it were those of an earlier start.
pub(super) async fn database_time(api: &Api) -> Result<DateTime<Utc>, ExitError> {
    let status: Status = api.get(&["status"], &()).await?;
    Ok(status.now)
}

/// Returns once every job has done what it should; the error says which have not after `limit`.
pub(super) async fn wait_and_check(
    api: &Api,
    files: &Files,
    started: DateTime<Utc>,
    limit: Duration,
    log: Log,
    output: Output,
) -> Result<(), ExitError> {
    let expected: Vec<Expectation> =
        files.jobs().filter_map(|job| Expectation::of(job, files.functions())).collect();
    for expectation in expected.iter().filter(|expectation| expectation.is_manual) {
        log.say(&format!("Triggering {}, which fires only when asked.", neutral::line(&expectation.job)));
        commands::trigger(api, &expectation.job, &TriggerRequest::default(), None).await?;
    }
    let began = monotonic();
    let mut told = String::new();
    loop {
        let over = began.elapsed() > limit;
        match look(api, &expected, started).await {
            Ok((executions, missing)) => {
                if missing.is_empty() || over {
                    show(output, &executions)?;
                    return conclude(&expected, &executions, &missing, limit, log);
                }
                let names: Vec<&str> = missing.iter().map(|(job, _)| job.as_str()).collect();
                let text = format!("Waiting for {}.", names.join(", "));
                if told != text {
                    log.say(&text);
                    told = text;
                }
            }
            Err(error) if error.is_passing() && !over => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The attempts that matter, and the jobs that have not done what they should, with the reasons.
async fn look(
    api: &Api,
    expected: &[Expectation],
    started: DateTime<Utc>,
) -> Result<(Vec<Attempt>, Vec<(String, String)>), ApiError> {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for expectation in expected {
        let query = |limit, cursor| AttemptsQuery {
            job: Some(expectation.job.clone()),
            limit: Some(limit),
            cursor,
            ..AttemptsQuery::default()
        };
        let executions = api.list::<Attempt, _>(&["attempts"], MAX_PAGE as usize, query).await?.items;
        if let Verdict::Missing(reason) = expectation.judge(&executions, started) {
            missing.push((expectation.job.clone(), reason));
        }
        found.extend(executions.into_iter().filter(|execution| expectation.concerns(execution, started)));
    }
    found.sort_by_key(|execution| (execution.started_at, execution.id));
    Ok((found, missing))
}

fn show(output: Output, executions: &[Attempt]) -> Result<(), ExitError> {
    output.list(executions, commands::ATTEMPTS, "nothing was executed")
}

fn conclude(
    expected: &[Expectation],
    executions: &[Attempt],
    missing: &[(String, String)],
    limit: Duration,
    log: Log,
) -> Result<(), ExitError> {
    if missing.is_empty() {
        log.say(&format!(
            "Every job of the files has executed: {} jobs, {} attempts.",
            expected.len(),
            executions.len()
        ));
        // Retries are what the files ask for; that none has succeeded is still worth knowing.
        let succeeds = |job: &str| {
            executions
                .iter()
                .any(|one| one.job.as_deref() == Some(job) && one.status == AttemptStatus::Succeeded)
        };
        let failing: Vec<&str> =
            expected.iter().map(|one| one.job.as_str()).filter(|job| !succeeds(job)).collect();
        if !failing.is_empty() {
            log.say(&format!(
                "Of these, every attempt so far has failed, and was retried as the files ask: {}.",
                neutral::line(&failing.join(", "))
            ));
        }
        return Ok(());
    }
    let lines: String = missing
        .iter()
        .map(|(job, reason)| format!("\n  {}: {}", neutral::line(job), neutral::line(reason)))
        .collect();
    Err(failure(anyhow!(
        "after {} not every job has done what the files say; raise --once-timeout if they only need longer:{lines}",
        humantime::format_duration(limit)
    )))
}
