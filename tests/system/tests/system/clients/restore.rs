//! The restore of `docs/operate/backup-and-retention.md`, command by command, on a server that knows
//! none of the roles.

use std::path::Path;

use serde_json::json;
use system_tests::{Installation, PATIENCE};
use test_support::{Finished, Login, OwnServer, Process, server_program};

/// What the page writes in place of the values of an installation.
const DUMP: &str = "sched-backup-20261121T012000Z-1f3c9a52.pgdump";
const OWNER_URL: &str = "postgresql://sched:…@db.example.net/sched_restored";
const DATABASE: &str = "sched_restored";

/// The first block of a language in the section about restoring.
fn documented(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/backup-and-retention.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split_once("\n## Restore\n").unwrap().1;
    let block = section.split_once(&format!("```{language}\n")).unwrap().1;
    block.split_once("```").unwrap().0.to_owned()
}

/// Runs a shell script that finds the programs of PostgreSQL and of this build.
async fn shell(folder: &Path, script: &str) -> Finished {
    let postgres = server_program("psql");
    let ours = std::env::current_exe().unwrap();
    let ours = ours.parent().and_then(Path::parent).unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", postgres.parent().unwrap().display(), ours.display());
    // Builds it if it is missing.
    drop(Process::program("schedctl"));
    let launch = Process::at(Path::new("/bin/sh")).args(["-e", "-u", "-c", script]);
    let done = launch.current_dir(folder).env("PATH", path).run(PATIENCE).await;
    assert!(done.status.success(), "{script}\n{}\n{}", done.stdout, done.stderr);
    done
}

async fn run(system: &Installation, job: &str) -> String {
    let run = system.trigger(job).await;
    let ended = format!("SELECT count(*) FROM job_execution_log WHERE dispatch_id = '{run}'");
    system.wait_count("the attempt to end", &ended, 1).await;
    let attempt = system.get(&format!("/api/v1/attempts?run={run}")).await["items"][0].clone();
    attempt["status"].as_str().unwrap().to_owned()
}

async fn start(system: &mut Installation, settings: &[(&str, &str)], of_worker: &[(&str, &str)]) {
    system.start_api_with(settings).await;
    system.start_scheduler(&[]).await;
    system.start_worker(&[settings, of_worker].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_restore_works_on_a_fresh_server() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, backups) = (folder.path().join("keys"), folder.path().join("backups"));
    let made =
        Process::program("schedctl").args(["secrets", "keygen", "--file"]).arg(&keys).run(PATIENCE).await;
    assert!(made.status.success(), "{}", made.stderr);
    let pg_dump = server_program("pg_dump");
    let settings = [("SECRETS_KEY_FILE", keys.to_str().unwrap())];
    let of_worker = [
        ("BACKUP_DIR", backups.to_str().unwrap()),
        ("PG_BIN_DIR", pg_dump.parent().unwrap().to_str().unwrap()),
    ];

    let mut old = Installation::new().await;
    // These triggers belong to the tests.
    old.execute("DROP SCHEMA witness CASCADE").await;
    let owner = old.database.url_of(Login::Owner);
    shell(folder.path(), &format!("schedctl migrate up --database-url '{owner}'")).await;
    start(&mut old, &settings, &of_worker).await;
    let value = folder.path().join("value");
    std::fs::write(&value, "opened").unwrap();
    for command in [
        &["secrets", "set", "token", "--from-file", value.to_str().unwrap()][..],
        &["jobs", "enable", "sched.backup"],
    ] {
        let done = old.schedctl(command).await;
        assert!(done.status.success(), "{command:?}: {}", done.stderr);
    }
    old.apply(&json!({
        "task_functions": [{
            "name": "open",
            "handler_type": "process",
            "handler_config": {"shell": true, "command": "test \"$TOKEN\" = opened", "env": {"TOKEN": {"secret": "token"}}},
        }],
        "jobs": [{"name": "open", "function": "open", "job_type": "manual", "retry_policy": {"max_attempts": 1}}],
    }))
    .await;
    assert_eq!(run(&old, "open").await, "succeeded");
    old.trigger("sched.backup").await;
    let log = "SELECT count(*) FROM maintenance.job_execution_log";
    old.wait_count("the backup", log, 1).await;
    let path = old
        .text("SELECT coalesce(result ->> 'path', error_message) FROM maintenance.job_execution_log")
        .await;
    let name = Path::new(&path).file_name().unwrap().to_str().unwrap();
    for process in old.schedulers.iter_mut().chain(&mut old.workers).chain(&mut old.api) {
        process.stop_gracefully(PATIENCE).await;
    }
    drop(old);

    let server = OwnServer::start().await;
    let (sql, script) = (documented("sql"), documented("sh"));
    assert!(script.contains(OWNER_URL) && script.matches(DUMP).count() == 2, "{script}");
    let roles = folder.path().join("roles.sql");
    std::fs::write(&roles, sql).unwrap();
    let admin = server.url("postgres");
    shell(folder.path(), &format!("psql -X -v ON_ERROR_STOP=1 -d '{admin}' -f '{}'", roles.display())).await;
    let owner = Login::Owner.in_url(&server.url(DATABASE));
    let script = script.replace(OWNER_URL, &owner).replace(DUMP, name);
    let done = shell(&backups, &script).await;
    assert!(done.stdout.contains(&format!("{name}: OK")), "{}", done.stdout);

    let mut new = Installation::on(server.existing(DATABASE)).await;
    start(&mut new, &settings, &[]).await;
    assert_eq!(run(&new, "open").await, "succeeded", "the secret is readable");
    let history = "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.tenant_id = l.tenant_id AND j.id = l.job_id
                   WHERE j.name = 'open'";
    assert_eq!(new.count(history).await, 2, "with the history");
    assert_eq!(new.count("SELECT count(*) FROM ledger_gaps").await, 0);
    let health = new.schedctl(&["health"]).await;
    assert!(health.status.success(), "{}{}", health.stdout, health.stderr);
}
