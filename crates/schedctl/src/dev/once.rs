//! `--once`: waits until every job of the applied files has succeeded, or one of them has failed
//! permanently. Manual jobs are triggered once. Requests to an unavailable API are repeated until the time
//! limit.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, SecondsFormat, Utc};
use sched_runtime::exit::ExitError;
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{Attempt, AttemptsQuery, Run, RunsQuery, Status, TriggerRequest};
use uuid::Uuid;

use super::log::Log;
use super::verdict::{Expectation, JobCheck};
use crate::api::{Api, ApiError};
use crate::commands;
use crate::failure::failure;
use crate::manifest::Files;
use crate::output::{Output, count, neutral};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// More runs of one job than a start has within its time limit.
const MOST: usize = 5_000;

/// Runs that were created earlier belong to a previous start.
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

/// The state of the jobs of the files.
#[derive(Debug, Default)]
struct Findings {
    runs: HashSet<Uuid>,
    /// Jobs with the reason.
    missing: Vec<(String, String)>,
    failed: Vec<(String, String)>,
}

impl Once<'_> {
    /// Returns once every job has succeeded. After the time limit, and once a run has failed
    /// permanently, the error lists the jobs and the reasons.
    pub(super) async fn wait_and_check(&self) -> Result<(), ExitError> {
        let Self { api, files, limit, log, .. } = *self;
        let expected: Vec<Expectation> = files.jobs().filter_map(Expectation::of).collect();
        for expectation in expected.iter().filter(|expectation| expectation.is_manual) {
            log.print(&format!("Triggering {}, which has no schedule.", neutral::line(&expectation.job)));
            commands::trigger(api, &expectation.job, &TriggerRequest::default(), None).await?;
        }
        let began = monotonic();
        let mut last = String::new();
        loop {
            let over = began.elapsed() > limit;
            match self.poll(&expected).await {
                Ok(found) if found.missing.is_empty() || !found.failed.is_empty() || over => {
                    let attempts = self.attempts(&expected, &found.runs).await?;
                    self.output.list(&attempts, commands::ATTEMPTS, "there are no attempts")?;
                    return self.conclude(&expected, attempts.len(), &found);
                }
                Ok(found) => {
                    let names: Vec<&str> = found.missing.iter().map(|(job, _)| job.as_str()).collect();
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

    /// Of one-offs, runs and attempts of all time.
    fn since(&self, expectation: &Expectation) -> Option<String> {
        let start = || self.started.to_rfc3339_opts(SecondsFormat::Micros, true);
        (!expectation.is_one_off).then(start)
    }

    async fn poll(&self, expected: &[Expectation]) -> Result<Findings, ApiError> {
        let mut found = Findings::default();
        for expectation in expected {
            let query = |limit, cursor| RunsQuery {
                job: Some(expectation.job.clone()),
                since: self.since(expectation),
                limit: Some(limit),
                cursor,
                ..RunsQuery::default()
            };
            let runs = self.api.list::<Run, _>(&["runs"], MOST, query).await?.items;
            match expectation.check(&runs, self.started) {
                JobCheck::Done => {}
                JobCheck::Missing(reason) => found.missing.push((expectation.job.clone(), reason)),
                JobCheck::Failed(reason) => found.failed.push((expectation.job.clone(), reason)),
            }
            let ours = runs.iter().filter(|run| expectation.concerns(run, self.started));
            found.runs.extend(ours.map(|run| run.id));
        }
        Ok(found)
    }

    async fn attempts(
        &self,
        expected: &[Expectation],
        runs: &HashSet<Uuid>,
    ) -> Result<Vec<Attempt>, ApiError> {
        let mut all = Vec::new();
        for expectation in expected {
            let query = |limit, cursor| AttemptsQuery {
                job: Some(expectation.job.clone()),
                since: self.since(expectation),
                limit: Some(limit),
                cursor,
                ..AttemptsQuery::default()
            };
            let found = self.api.list::<Attempt, _>(&["attempts"], MOST, query).await?.items;
            all.extend(found.into_iter().filter(|attempt| runs.contains(&attempt.run_id)));
        }
        all.sort_by_key(|attempt| (attempt.started_at, attempt.id));
        Ok(all)
    }

    fn conclude(&self, expected: &[Expectation], attempts: usize, found: &Findings) -> Result<(), ExitError> {
        let Findings { missing, failed, .. } = found;
        let lines = |jobs: &[(String, String)]| -> String {
            let line = |(job, reason): &(String, String)| {
                format!("\n  {}: {}", neutral::line(job), neutral::line(reason))
            };
            jobs.iter().map(line).collect()
        };
        if !failed.is_empty() {
            let jobs = count(failed.len(), "job", "jobs");
            let open = match missing.as_slice() {
                [] => String::new(),
                open => format!("\nnot done before that:{}", lines(open)),
            };
            return Err(failure(anyhow!(
                "{jobs} of the files failed, and no retry follows:{}{open}",
                lines(failed)
            )));
        }
        if !missing.is_empty() {
            let verb = if missing.len() == 1 { "is" } else { "are" };
            return Err(failure(anyhow!(
                "after {} {} of the files {verb} not done; raise --once-timeout if they need more time:{}",
                humantime::format_duration(self.limit),
                count(missing.len(), "job", "jobs"),
                lines(missing)
            )));
        }
        self.log.print(&format!(
            "Every job of the files has succeeded: {}, {}.",
            count(expected.len(), "job", "jobs"),
            count(attempts, "attempt", "attempts")
        ));
        Ok(())
    }
}
