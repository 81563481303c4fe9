use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use sched_runtime::monotonic_clock::monotonic;
use test_support::{Launch, Process, TestDatabase, wait_for};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{LIMIT, Request, TestApp, send};

fn program(url: &str) -> Launch {
    Process::at(Path::new(env!("CARGO_BIN_EXE_sched-api")))
        .env("LOG_FORMAT", "json")
        .env("API_PORT", "0")
        .env("DATABASE_URL", url)
}

#[tokio::test(flavor = "multi_thread")]
async fn program_logs_its_address_and_stops_cleanly() {
    let db = TestDatabase::new().await;
    test_support::identity::install(&db.client().await).await;
    let mut api = program(db.url()).start();
    let addr = api.health_addr().await;
    assert_eq!(api.addr("api.address").await, addr);
    wait_for("the API is ready", LIMIT, async || {
        let answer = send(addr, Request::get("/health")).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    assert_eq!(send(addr, Request::get("/api/v1/jobs")).await.status, 200);
    assert_eq!(api.stop_gracefully(LIMIT).await.code(), Some(0), "{}", api.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_starts_have_distinct_exit_codes() {
    let (fresh, empty) = (TestDatabase::new().await, TestDatabase::empty().await);
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().port().to_string();
    for (launch, code, text) in [
        (program(fresh.url()).env("JWT_ISSUER", "x"), 2, "jwt-audience"),
        (program(fresh.url()).env("DEFAULT_TIMEZONE", "Mars"), 2, "default-timezone"),
        (program("mysql://x/y"), 2, "database-url"),
        (program(empty.url()), 4, "schedctl migrate up"),
        (program(fresh.url()).env("API_PORT", &taken), 5, "--api-port"),
        (program("postgresql://127.0.0.1:1/x").env("API_PORT", &taken), 5, "--api-port"),
    ] {
        let finished = launch.run(LIMIT).await;
        assert_eq!(finished.status.code(), Some(code), "{}", finished.stderr);
        assert!(finished.stderr.contains(text), "{text} is not in: {}", finished.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_waits_for_its_database() {
    let mut api = program("postgresql://127.0.0.1:1/x").start();
    let addr = api.health_addr().await;
    assert_eq!(send(addr, Request::get("/health/live")).await.status, 200);
    let ready = send(addr, Request::get("/health/ready")).await;
    assert_eq!(
        (ready.status, ready.json()["reason"].as_str()),
        (503, Some("the database is not usable yet"))
    );
    let answer = send(addr, Request::get("/api/v1/jobs")).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("starting")));
    assert!(answer.header("retry-after").is_some());
    wait_for("the log names the reason of the wait", LIMIT, async || {
        let log = api.stderr();
        if log.contains("the database cannot be used yet; trying again") { Ok(()) } else { Err(log) }
    })
    .await;
    assert_eq!(api.stop_gracefully(LIMIT).await.code(), Some(0), "{}", api.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_fail_until_the_database_returns() {
    let app = TestApp::start().await;
    let name = app.fixture.db.name();
    let server = app.fixture.db.url().replace(name, "postgres");
    let (admin, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    let driving = sched_runtime::tasks::spawn_owned("admin", connection);
    admin
        .batch_execute(&format!(
            "ALTER DATABASE {name} ALLOW_CONNECTIONS false; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        ))
        .await
        .unwrap();
    let answer = wait_for("requests fail", LIMIT, async || {
        let answer = app.get("/api/v1/jobs").await;
        if answer.status == 200 { Err(answer.body) } else { Ok(answer) }
    })
    .await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("database_unavailable")));
    assert_eq!(
        answer.json()["detail"],
        "the database cannot be reached; retry later",
        "a read has no effect"
    );
    assert!(answer.header("retry-after").is_some());
    wait_for("readiness follows", LIMIT, async || {
        let answer = app.get("/health/ready").await;
        if answer.status == 503 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    assert_eq!(app.get("/health/live").await.status, 200);
    admin.batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await.unwrap();
    app.wait_ready().await;
    assert_eq!(app.get("/api/v1/jobs").await.status, 200);
    drop(driving);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_does_not_delay_the_stop() {
    let app = TestApp::start().await;
    let mut idle = TcpStream::connect(app.addr).await.unwrap();
    let head = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", app.addr);
    idle.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0_u8; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let started = monotonic();
    app.ask_to_stop();
    app.ended().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(8), "it took {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn running_request_finishes_before_the_stop() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let mut client = app.fixture.client().await;
    let lock = client.transaction().await.unwrap();
    lock.execute("SELECT FROM scheduled_jobs FOR UPDATE", &[]).await.unwrap();
    let addr: SocketAddr = app.addr;
    let request = sched_runtime::tasks::spawn_owned("request", async move {
        send(addr, Request::post("/api/v1/jobs/report/trigger")).await
    });
    app.fixture.wait_for_blocked(1).await;
    app.ask_to_stop();
    wait_for("no new connection is taken", LIMIT, async || match TcpStream::connect(addr).await {
        Ok(_) => Err("one was taken".to_owned()),
        Err(error) => Ok(error),
    })
    .await;
    lock.rollback().await.unwrap();
    assert_eq!(request.await.unwrap().status, 202);
    app.ended().await.unwrap();
}
