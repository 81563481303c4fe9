//! Builds the environment variables of a process, from nothing. The worker's own environment is
//! never passed on as a whole.
//!
//! Precedence, highest first: variables about the attempt, variables that the function sets,
//! variables that it inherits by name, and fixed ones. `sched_model::domain::handler_config` has
//! rejected dangerous and secret names, and [`EnvAllowList`] those that the operator does not allow.

mod allow;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use chrono::SecondsFormat;
use sched_model::domain::handler_config::ProcessConfig;

use super::super::{Execution, MissingSecret, RunDetails};
use super::orphans::{ATTEMPT_MARK, WORKER_MARK};
use super::users::Identity;
use super::workspace::Workspace;

pub(super) use allow::VariableRefused;
pub use allow::{EnvAllowList, EnvAllowListError};

/// Also the `PATH` of every process.
pub const SAFE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug)]
pub(super) struct Worker {
    /// A function may name variables of it.
    pub(super) inherited: BTreeMap<OsString, OsString>,
    /// See [`crate::handlers::process::orphans`].
    pub(super) mark: String,
}

/// An attempt, as far as its program and the environment of the program depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramContext<'a> {
    pub(super) config: &'a ProcessConfig,
    pub(super) execution: &'a Execution,
    pub(super) worker: &'a Worker,
    /// The user of the program, if it is not the worker's user.
    pub(super) identity: Option<&'a Identity>,
}

pub(super) fn variables(
    context: &ProgramContext<'_>,
    workspace: &Workspace,
) -> Result<BTreeMap<OsString, OsString>, MissingSecret> {
    let ProgramContext { config, execution, worker, identity } = *context;
    let mut all = BTreeMap::new();
    let mut set = |name: &str, value: &OsStr| {
        all.insert(OsString::from(name), value.to_owned());
    };
    set("PATH", SAFE_PATH.as_ref());
    set("LANG", "C.UTF-8".as_ref());
    set("TMPDIR", workspace.temp().as_os_str());
    if let Some((name, home)) = identity.and_then(|identity| identity.account.as_ref()) {
        set("USER", name.as_ref());
        set("LOGNAME", name.as_ref());
        set("HOME", home.as_os_str());
    }
    for name in &config.env_allow {
        if let Some(value) = worker.inherited.get(OsStr::new(name)) {
            set(name, value);
        }
    }
    for (name, value) in &config.env {
        set(name, execution.secrets.resolve(value)?.as_ref());
    }
    set("SCHED_ARGS_FILE", workspace.args_file().as_os_str());
    set("SCHED_RESULT_FILE", workspace.result_file().as_os_str());
    set("SCHED_PROGRESS_FILE", workspace.progress_file().as_os_str());
    set(WORKER_MARK, worker.mark.as_ref());
    for (name, value) in about(execution).into_iter().chain(surroundings(execution)) {
        set(name, value.as_ref());
    }
    if let Some(upstream) = &execution.upstream {
        set("SCHED_UPSTREAM_RUN_ID", upstream.run_id.to_string().as_ref());
        set("SCHED_UPSTREAM_JOB", upstream.job.as_ref());
        set("SCHED_UPSTREAM_STATUS", upstream.status.as_ref());
        if upstream.result.is_some() {
            set("SCHED_UPSTREAM_RESULT_FILE", workspace.upstream_file().as_os_str());
        }
    }
    if let Some(traceparent) = &execution.traceparent {
        set("TRACEPARENT", traceparent.as_ref());
    }
    Ok(all)
}

/// Without the variables that have no value.
fn surroundings(execution: &Execution) -> impl Iterator<Item = (&'static str, String)> {
    let details = execution.details.as_deref();
    let of = |value: fn(&RunDetails) -> Option<&String>| details.and_then(value).cloned();
    [
        ("SCHED_TENANT", of(|details| Some(&details.tenant))),
        ("SCHED_PROJECT", of(|details| details.project.as_ref())),
        ("SCHED_PROJECT_ID", execution.project_id.map(|id| id.to_string())),
        ("SCHED_QUEUE", of(|details| Some(&details.queue))),
        ("SCHED_TRIGGER_USER", of(|details| details.user.as_ref())),
        ("SCHED_SCHEDULE", of(|details| details.schedule.as_ref())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

fn about(execution: &Execution) -> [(&'static str, String); 12] {
    [
        ("SCHED_JOB_ID", execution.job_id.to_string()),
        ("SCHED_JOB_NAME", execution.job_name.clone()),
        ("SCHED_RUN_ID", execution.run_id.to_string()),
        (ATTEMPT_MARK, execution.attempt_id.to_string()),
        ("SCHED_ATTEMPT", execution.attempt.to_string()),
        ("SCHED_TIMEOUT_SECONDS", execution.timeout.as_secs().to_string()),
        ("SCHED_TENANT_ID", execution.tenant_id.to_string()),
        ("SCHED_TRIGGER", execution.trigger.to_owned()),
        ("SCHED_FIRE_TIME", execution.fire_time.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
        ("SCHED_LATENESS_MS", execution.lateness_ms.to_string()),
        ("SCHED_CATCHUP", u8::from(execution.catch_up).to_string()),
        ("SCHED_IDEMPOTENCY_KEY", execution.idempotency_key.clone()),
    ]
}
