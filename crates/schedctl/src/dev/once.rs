//! `--once`: waits until every job of the applied files has run, and checks the results. Manual
//! jobs are triggered once. Requests to an unavailable API are repeated until the time limit.

use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, Utc};
use sched_runtime::exit::ExitError;
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{Attempt, AttemptStatus, AttemptsQuery, MAX_PAGE, Status, TriggerRequest};

use super::log::Log;
use super::verdict::{Expectation, JobCheck};
use crate::api::{Api, ApiError};
use crate::commands;
use crate::failure::failure;
use crate::manifest::Files;
use crate::output::{Output, neutral};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Runs that ended earlier belong to a previous start.
pub(super) async fn database_time(api: &Api) -> Result<DateTime<Utc>, ExitError> {
    let status: Status = api.get(&["status"], &()).await?;
    Ok(status.now)
}

/// The wait of `--once` for the results of the applied files.
pub(super) struct Once<'a> {
    pub(super) api: &'a Api,
    pub(super) files: &'a Files,
    /// The database clock before the files were applied.
    pub(super) started: DateTime<Utc>,
    /// The time limit.
    pub(super) limit: Duration,
    pub(super) log: Log,
    pub(super) output: Output,
}

impl Once<'_> {
    /// Returns once every job has the expected results. After the time limit, the error lists the
    /// missing ones.
    pub(super) async fn wait_and_check(&self) -> Result<(), ExitError> {
        let Self { api, files, limit, log, .. } = *self;
        let expected: Vec<Expectation> =
            files.jobs().filter_map(|job| Expectation::of(job, files.functions())).collect();
        for expectation in expected.iter().filter(|expectation| expectation.is_manual) {
            log.print(&format!("Triggering {}, which has no schedule.", neutral::line(&expectation.job)));
            commands::trigger(api, &expectation.job, &TriggerRequest::default(), None).await?;
        }
        let began = monotonic();
        let mut last = String::new();
        loop {
            let over = began.elapsed() > limit;
            match self.poll(&expected).await {
                Ok((attempts, missing)) => {
                    if missing.is_empty() || over {
                        self.output.list(&attempts, commands::ATTEMPTS, "there are no attempts")?;
                        return self.conclude(&expected, &attempts, &missing);
                    }
                    let names: Vec<&str> = missing.iter().map(|(job, _)| job.as_str()).collect();
                    let text = format!("Waiting for {}.", names.join(", "));
                    if last != text {
                        log.print(&text);
                        last = text;
                    }
                }
                Err(error) if error.is_passing() && !over => {}
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn poll(
        &self,
        expected: &[Expectation],
    ) -> Result<(Vec<Attempt>, Vec<(String, String)>), ApiError> {
        let Self { api, started, .. } = *self;
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for expectation in expected {
            let query = |limit, cursor| AttemptsQuery {
                job: Some(expectation.job.clone()),
                limit: Some(limit),
                cursor,
                ..AttemptsQuery::default()
            };
            let attempts = api.list::<Attempt, _>(&["attempts"], MAX_PAGE as usize, query).await?.items;
            if let JobCheck::Missing(reason) = expectation.check(&attempts, started) {
                missing.push((expectation.job.clone(), reason));
            }
            found.extend(attempts.into_iter().filter(|attempt| expectation.concerns(attempt, started)));
        }
        found.sort_by_key(|attempt| (attempt.started_at, attempt.id));
        Ok((found, missing))
    }

    fn conclude(
        &self,
        expected: &[Expectation],
        attempts: &[Attempt],
        missing: &[(String, String)],
    ) -> Result<(), ExitError> {
        let Self { log, limit, .. } = self;
        if missing.is_empty() {
            log.print(&format!(
                "Every job of the files has run: {} jobs, {} attempts.",
                expected.len(),
                attempts.len()
            ));
            // The files request retries, but a job without any success is still reported.
            let succeeds = |job: &str| {
                attempts
                    .iter()
                    .any(|one| one.job.as_deref() == Some(job) && one.status == AttemptStatus::Succeeded)
            };
            let failing: Vec<&str> =
                expected.iter().map(|one| one.job.as_str()).filter(|job| !succeeds(job)).collect();
            if !failing.is_empty() {
                log.print(&format!(
                    "Only failed attempts so far, retried as configured: {}.",
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
            "after {} jobs of the files are not done; raise --once-timeout if they need more time:{lines}",
            humantime::format_duration(*limit)
        )))
    }
}
