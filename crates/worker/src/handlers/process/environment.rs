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

use super::super::{Execution, MissingSecret};
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
    for (name, value) in about(execution) {
        set(name, value.as_ref());
    }
    if let Some(traceparent) = &execution.traceparent {
        set("TRACEPARENT", traceparent.as_ref());
    }
    Ok(all)
}

fn about(execution: &Execution) -> [(&'static str, String); 9] {
    [
        ("SCHED_JOB_ID", execution.job_id.to_string()),
        ("SCHED_JOB_NAME", execution.job_name.clone()),
        ("SCHED_RUN_ID", execution.run_id.to_string()),
        (ATTEMPT_MARK, execution.attempt_id.to_string()),
        ("SCHED_ATTEMPT", execution.attempt.to_string()),
        ("SCHED_FIRE_TIME", execution.fire_time.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
        ("SCHED_LATENESS_MS", execution.lateness_ms.to_string()),
        ("SCHED_CATCHUP", u8::from(execution.catch_up).to_string()),
        ("SCHED_IDEMPOTENCY_KEY", execution.idempotency_key.clone()),
    ]
}
