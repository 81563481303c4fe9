//! Starts that fail with a clear message and an exit code.

use std::net::TcpListener;
use std::time::Duration;

use test_support::{Finished, Launch, Process, TestDatabase, wait_for};

const LIMIT: Duration = Duration::from_secs(60);
const DAEMONS: [&str; 3] = ["sched-api", "sched-scheduler", "sched-worker"];

async fn fails(launch: Launch, code: i32, says: &[&str]) {
    let Finished { status, stderr, .. } = launch.run(LIMIT).await;
    assert_eq!(status.code(), Some(code), "{stderr}");
    for text in says {
        assert!(stderr.contains(text), "{text:?} is missing in: {stderr}");
    }
}

fn daemon(name: &str) -> Launch {
    Process::program(name).env("HEALTH_PORT", "0").env("API_PORT", "0")
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_flags_and_bad_settings_are_all_told_at_once() {
    for name in DAEMONS {
        fails(daemon(name).arg("--no-such-flag"), 2, &["--no-such-flag"]).await;
        fails(daemon(name), 2, &["DATABASE_URL"]).await;
        let bad = daemon(name)
            .env("DATABASE_URL", "mysql://x")
            .env("LOG_FORMAT", "xml")
            .env("DATABASE_LOCK_TIMEOUT", "3");
        fails(bad, 2, &["DATABASE_URL", "LOG_FORMAT", "DATABASE_LOCK_TIMEOUT"]).await;
        fails(daemon(name).env("SCHED_CONFIG", "/no/such/file.toml"), 2, &["/no/such/file.toml"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_database_url_ends_the_start() {
    for name in DAEMONS {
        for (url, says) in [
            ("postgresql://nobody@127.0.0.1/none?port=1,2", "number of ports (3)"),
            ("postgresql:///none", "names no server"),
            ("postgresql://nobody@127.0.0.1:port/none", "the database URL is invalid"),
        ] {
            fails(daemon(name).env("DATABASE_URL", url), 2, &[says]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_older_or_newer_schema_names_the_command_that_mends_it() {
    let empty = TestDatabase::empty().await;
    for name in DAEMONS {
        fails(daemon(name).env("DATABASE_URL", empty.url()), 4, &["no schema", "schedctl migrate up"]).await;
    }
    let newer = TestDatabase::new().await;
    newer
        .client()
        .await
        .batch_execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231235959')")
        .await
        .unwrap();
    for name in DAEMONS {
        fails(daemon(name).env("DATABASE_URL", newer.url()), 4, &["newer", "99991231235959"]).await;
    }
    let older = TestDatabase::new().await;
    let forget = "DELETE FROM __diesel_schema_migrations WHERE version = (SELECT max(version) FROM __diesel_schema_migrations)";
    older.client().await.batch_execute(forget).await.unwrap();
    for name in DAEMONS {
        fails(daemon(name).env("DATABASE_URL", older.url()), 4, &["behind", "schedctl migrate up"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_told_at_once() {
    let database = TestDatabase::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (name, variable) in [
        ("sched-api", "API_PORT"),
        ("sched-api", "HEALTH_PORT"),
        ("sched-scheduler", "HEALTH_PORT"),
        ("sched-worker", "HEALTH_PORT"),
    ] {
        let launch = daemon(name).env("DATABASE_URL", database.url()).env(variable, &port);
        fails(launch, 5, &[&port]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_takes_no_tokens_without_knowing_what_to_judge_them_by() {
    let database = TestDatabase::new().await;
    let launch = daemon("sched-api").env("DATABASE_URL", database.url()).env("JWT_ISSUER", "somebody");
    fails(launch, 2, &["jwt-audience", "jwt-algorithm", "HS256"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_wait_for_a_database_that_is_down_and_say_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://nobody@127.0.0.1:{}/none", free.local_addr().unwrap().port());
    drop(free);
    for name in DAEMONS {
        let mut process = daemon(name).env("DATABASE_URL", &url).env("LOG_FORMAT", "json").start();
        wait_for("the daemon to say that it waits", LIMIT, async || {
            let log = process.stderr();
            if log.contains("the database cannot be used yet; trying again") { Ok(()) } else { Err(log) }
        })
        .await;
        assert!(process.exited().is_none());
        assert!(process.stop_gracefully(LIMIT).await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn schedctl_gives_up_on_a_database_that_is_down() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://nobody@127.0.0.1:{}/none", free.local_addr().unwrap().port());
    drop(free);
    let launch =
        Process::program("schedctl").args(["migrate", "status", "--wait", "1s", "--database-url", &url]);
    fails(launch, 3, &["database"]).await;
}
