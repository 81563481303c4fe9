use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use sched_runtime::monotonic_clock::monotonic;
use sched_worker::handlers::process::{
    EnvAllowList, ProcessHandler, ProcessSettings, ProgramList, RunAsList,
};
use sched_worker::handlers::{Execution, Live, Report, Secrets};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Bench {
    pub(crate) handler: ProcessHandler,
    pub(crate) root: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::inheriting(&[])
    }

    pub(crate) fn inheriting(variables: &[(&str, &str)]) -> Self {
        Self::with(variables, &[])
    }

    pub(crate) fn running_as(users: &[&str]) -> Self {
        Self::with(&[], users)
    }

    pub(crate) fn permitting(programs: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let programs = ProgramList::parse(programs).unwrap();
        let settings = ProcessSettings { programs, ..settings(root.path(), &[], &[]) };
        Self { handler: handler(settings), root }
    }

    /// A worker with these variables whose operator allows some of them.
    pub(crate) fn allowing(allowed: &[&str], variables: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let env_allow = EnvAllowList::parse(allowed).unwrap();
        let settings = ProcessSettings { env_allow, ..settings(root.path(), variables, &[]) };
        Self { handler: handler(settings), root }
    }

    fn with(variables: &[(&str, &str)], users: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let handler = handler_in(root.path(), variables, users);
        Self { handler, root }
    }

    pub(crate) async fn run(&self, execution: Execution) -> Report {
        self.run_until(execution, CancellationToken::new()).await
    }

    pub(crate) async fn run_until(&self, execution: Execution, cancel: CancellationToken) -> Report {
        self.handler.run(&execution, &cancel).await
    }
}

/// A handler with its private directories in `root`.
pub(crate) fn handler_in(root: &Path, variables: &[(&str, &str)], users: &[&str]) -> ProcessHandler {
    handler(settings(root, variables, users))
}

fn handler(settings: ProcessSettings) -> ProcessHandler {
    ProcessHandler::new(settings).unwrap()
}

fn settings(root: &Path, variables: &[(&str, &str)], users: &[&str]) -> ProcessSettings {
    let inherited: BTreeMap<OsString, OsString> =
        variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    ProcessSettings {
        temp_root: root.to_path_buf(),
        inherited,
        installation: "tests".into(),
        cgroup_root: None,
        programs: ProgramList::default(),
        env_allow: EnvAllowList::default(),
        run_as: RunAsList::parse(users).unwrap(),
    }
}

pub(crate) async fn run(config: Value) -> Report {
    Bench::new().run(execution(config)).await
}

pub(crate) async fn run_shell(command: &str) -> Report {
    run(shell(command)).await
}

pub(crate) fn shell(command: &str) -> Value {
    json!({"shell": true, "command": command, "grace_seconds": 20})
}

pub(crate) fn execution(handler_config: Value) -> Execution {
    Execution {
        run_id: Uuid::from_u128(0xd),
        tenant_id: Uuid::from_u128(0xa),
        project_id: None,
        job_id: Uuid::from_u128(0xb),
        attempt_id: Uuid::new_v4(),
        job_name: "nightly report".into(),
        attempt: 2,
        fire_time: "2026-11-21T04:05:06.789Z".parse().unwrap(),
        lateness_ms: 42,
        catch_up: true,
        trigger: "api",
        details: None,
        idempotency_key: "key-1".into(),
        args: json!({"day": "monday"}),
        timeout: Duration::from_secs(60),
        traceparent: None,
        handler_config,
        live: Live::detached(),
        secrets: Secrets::default(),
        upstream: None,
    }
}

/// A unique number of seconds for `sleep`.
pub(crate) fn token() -> String {
    format!("1000.{:020}", Uuid::new_v4().as_u128() % 10_u128.pow(20))
}

pub(crate) fn alive_with(token: &str) -> Vec<u32> {
    let own = std::process::id();
    let with_token = |pid: &u32| {
        // A zombie has no arguments; a process that vanishes during the check is not alive.
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(token)
    };
    all_pids().into_iter().filter(|pid| *pid != own).filter(with_token).collect()
}

fn zombies() -> Vec<u32> {
    let own = std::process::id().to_string();
    let is_ours = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.starts_with(&format!("Z {own} "))
    };
    all_pids().into_iter().filter(is_ours).collect()
}

fn all_pids() -> Vec<u32> {
    let pids: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    assert!(pids.contains(&std::process::id()), "the process table must at least show us");
    pids
}

pub(crate) async fn wait_for(status: impl Fn() -> String, condition: impl Fn() -> bool) {
    let start = monotonic();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still not after {PATIENCE:?}: {}", status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until exactly `count` living `sleep`s carry the token. Shells do not count, because some
/// become their last command.
pub(crate) async fn wait_for_sleepers(token: &str, count: usize) {
    let is_sleep =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    let sleepers = || alive_with(token).iter().filter(|pid| is_sleep(pid)).count();
    let status = || format!("{count} sleeps with {token}, there are {:?}", alive_with(token));
    wait_for(status, || sleepers() == count).await;
}

pub(crate) async fn wait_for_silence(token: &str) {
    wait_for(
        || format!("nothing with {token}, there are {:?}", alive_with(token)),
        || alive_with(token).is_empty(),
    )
    .await;
}

pub(crate) async fn wait_for_no_zombies() {
    wait_for(|| format!("no zombies, there are {:?}", zombies()), || zombies().is_empty()).await;
}

/// Cancels the attempt once `count` sleeps carry the token.
pub(crate) async fn cancel_when_sleeping(bench: &Bench, config: Value, token: &str, count: usize) -> Report {
    let cancel = CancellationToken::new();
    let (report, ()) = tokio::join!(bench.run_until(execution(config), cancel.clone()), async {
        wait_for_sleepers(token, count).await;
        cancel.cancel();
    });
    report
}

pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| panic!("took longer than {limit:?}"))
}

pub(crate) fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}
