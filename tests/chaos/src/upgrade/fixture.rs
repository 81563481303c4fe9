//! A database of the previous release, dumped as SQL after some seconds of work, for tests of later
//! releases.
//!
//! Names of the machine are replaced. Jobs run shell commands, so that the dump contains no paths
//! of a build.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use test_support::{Pooler, Process, http, identity, server_program};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::fleet::{Choice, Fleet, program_in};
use crate::plan::Kind;
use crate::setup;
use crate::timeline::Lines;
use crate::workspace::Workspace;

/// Time limit for rows of each kind.
const LIMIT: Duration = Duration::from_secs(90);
const ENOUGH: &str =
    "SELECT (SELECT count(*) FROM job_execution_log) >= 25 AND (SELECT count(*) FROM dead_letters) >= 2
    AND (SELECT count(*) FROM skipped_fires WHERE reason IN ('overlap', 'paused_job', 'calendar')) >= 3
    AND (SELECT count(*) FROM job_dispatch WHERE triggered_by = 'dependency') >= 2";
/// Replacement for this machine's host name.
const HOST: &str = "host-1";
/// The master key of the fixture's secret; both are test data.
const KEY: &str = "keys";

/// Runs the release in `old` on an empty database, and dumps it to `file`.
pub(super) async fn write(workspace: &Arc<Workspace>, old: &Path, file: &Path) -> anyhow::Result<()> {
    super::migrate(&program_in(old, "schedctl")?, workspace).await?;
    let keys = workspace.file(KEY);
    let keygen = Process::at(&program_in(old, "schedctl")?).args(["secrets", "keygen", "--file"]).arg(&keys);
    ensure!(keygen.run(LIMIT).await.status.success(), "the key for secrets cannot be created");
    let keys = keys.display().to_string();
    setup::arrange(&workspace.client().await?).await?;
    let pooler = Pooler::before(workspace.url(), "session").await;
    let timeline = Arc::new(Lines::create(workspace.file("timeline.jsonl"))?);
    let settings = [("SECRETS_KEY_FILE", keys.as_str())];
    let choice = Choice { settings: &settings, programs: Some(old), ..Choice::default() };
    let fleet = Fleet::start(workspace, pooler.address(), &timeline, choice).await?;
    let api = fleet.all(Kind::Api).next().context("no API")?.address;
    use_it(api).await?;
    let sql = workspace.client().await?;
    let mut left = LIMIT.as_millis() / 200;
    while !sql.query_one(ENOUGH, &[]).await?.get::<_, bool>(0) {
        left -= 1;
        ensure!(left > 0, "rows of some kind are missing");
        sleep(Duration::from_millis(200)).await;
    }
    run_again(api).await?;
    let ends = fleet.end().await;
    ensure!(ends.is_empty(), "daemons did not exit in order: {ends:?}");
    sql.batch_execute("DROP SCHEMA witness CASCADE").await?;
    let counts = counts(&sql).await?;
    dump(workspace, file).await?;
    for (table, count) in counts {
        println!("{count:>6} {table}");
    }
    Ok(())
}

async fn use_it(api: SocketAddr) -> anyhow::Result<()> {
    let manifest = json!({
        "calendars": [{"name": "never", "timezone": "UTC", "weekly": [{"days": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"], "from": "00:00", "until": "23:59"}]}],
        "task_functions": [shell("well", "echo well"), shell("slow", "echo slow; sleep 2"), shell("badly", "echo badly >&2; exit 3")],
        "jobs": [
            every("pulse", 2, "well"), every("crowded", 1, "slow"), every("broken", 3, "badly"), every("paused", 1, "well"),
            json!({"name": "nightly", "function": "well", "job_type": "cron", "timezone": "Europe/Berlin",
                   "schedule_config": {"expression": "30 2 * * *"}}),
            json!({"name": "excluded", "function": "well", "job_type": "cron", "calendars": ["never"],
                   "schedule_config": {"expression": "* * * * * *", "seconds": true}}),
            json!({"name": "after", "function": "well", "job_type": "manual", "after": [{"job": "pulse"}]}),
            json!({"name": "by-hand", "function": "slow", "job_type": "manual", "overlap_policy": "allow", "max_instances": 10}),
            json!({"name": "gone", "function": "well", "job_type": "manual"}),
        ],
    });
    let asked: [(&str, &str, Value); 14] = [
        ("PUT", "secrets/db-password", json!({"value": "of a fixture"})),
        ("POST", "apply", manifest),
        ("PUT", "projects/billing", json!({"display_name": "Billing"})),
        ("PUT", "queues/reports", json!({"max_running": 3})),
        ("PATCH", "tenants/default", json!({"quotas": {"runs_per_minute": 100_000}})),
        ("POST", "jobs/paused/pause", json!({"reason": "a fixture", "until": "+4s"})),
        ("PATCH", "jobs/pulse", json!({"description": "a second version"})),
        ("POST", "jobs/by-hand/trigger", json!({})),
        ("POST", "jobs/by-hand/trigger", json!({})),
        ("DELETE", "jobs/gone", Value::Null),
        ("POST", "queues/reports/pause", json!({"reason": "a fixture"})),
        ("POST", "jobs/broken/trigger", json!({})),
        ("POST", "projects/billing/pause", json!({"reason": "a fixture"})),
        ("POST", "schedulers/leader/step-down", json!({})),
    ];
    for (number, (method, path, body)) in asked.into_iter().enumerate() {
        let (path, key) = (format!("/api/v1/{path}"), format!("fixture-{number}"));
        let secretly = path.contains("/secrets/");
        let headers: &[(&str, &str)] = if secretly { &[] } else { &[("idempotency-key", &key)] };
        let body = (!body.is_null()).then_some(&body);
        let answer = http::request(api, http::Request { method, path: &path, headers, body }).await?;
        ensure!(answer.status < 300, "{method} {path}: {}", answer.body);
    }
    Ok(())
}

async fn run_again(api: SocketAddr) -> anyhow::Result<()> {
    let page = http::get(api, "/api/v1/dead-letters?limit=2").await?.json();
    for (number, how) in ["retry", "discard"].into_iter().enumerate() {
        let item = &page["items"][number];
        let dead =
            item["run_id"].as_str().or_else(|| item["dispatch"]["id"].as_str()).context("no dead letter")?;
        let answer = http::post(api, &format!("/api/v1/dead-letters/{dead}/{how}"), &json!({})).await?;
        ensure!(answer.status < 300, "{how}: {}", answer.body);
    }
    Ok(())
}

fn shell(name: &str, command: &str) -> Value {
    json!({"name": name, "handler_type": "process", "handler_config": {"shell": true, "command": command, "grace_seconds": 1}})
}

fn every(name: &str, seconds: u64, function: &str) -> Value {
    json!({"name": name, "function": function, "job_type": "interval", "schedule_config": {"seconds": seconds},
           "retry_policy": {"max_attempts": 2, "backoff_seconds": 1}})
}

async fn counts(sql: &test_support::Client) -> anyhow::Result<BTreeMap<String, i64>> {
    let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
    let mut counts = BTreeMap::new();
    for row in sql.query(tables, &[]).await? {
        let table: String = row.get(0);
        let count = sql.query_one(&format!("SELECT count(*) FROM ONLY {table}"), &[]).await?.get(0);
        counts.insert(table, count);
    }
    Ok(counts)
}

async fn dump(workspace: &Arc<Workspace>, file: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(server_program("pg_dump"));
    command.args(["--no-owner", "--inserts", "--rows-per-insert=50", "--dbname", workspace.url()]);
    let output = spawn_blocking(move || command.output()).await?.context("failed to run pg_dump")?;
    ensure!(output.status.success(), "pg_dump: {}", String::from_utf8_lossy(&output.stderr));
    let dump = String::from_utf8(output.stdout)?;
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let is_told = |line: &&str| {
        // Lines for psql from a newer pg_dump, and lines that differ in each dump.
        !line.starts_with('\\') && !line.starts_with("-- Dumped") && !line.is_empty() && *line != "--"
    };
    let lines: Vec<String> =
        dump.lines().filter(is_told).map(|line| line.replace(hostname.trim(), HOST)).collect();
    ensure!(dump.contains(identity::OWNER), "the dump has no rows");
    Ok(fs::write(file, lines.join("\n") + "\n")?)
}
