use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sched_model::definitions::secrets::{self, NewValue};
use sched_model::domain::ids::DEFAULT_TENANT;
use sched_model::domain::secret::{KEY_BYTES, SecretKeys, SecretPlace, SecretValue, key_line};
use scripted_http::{Response, Server, sequence};
use secrecy::ExposeSecret as _;
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const HOOK: &str = "/hook/T0K3N";

const KEY: [u8; 24] = [7; 24];

/// A web server that sends one status after the other; the last one repeats.
fn web_server(statuses: &[u16]) -> Server {
    Server::start(sequence(statuses.iter().copied().map(Response::new)))
}

/// A worker that may call this machine and decrypts secrets.
async fn worker(more: &[(&str, &str)]) -> (RunningWorker, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    let line = key_line("k", &[1; KEY_BYTES]);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    file.write_all(line.expose_secret().as_bytes()).unwrap();
    let path = path.display().to_string();
    let mut settings = vec![("SECRETS_KEY_FILE", path.as_str()), ("WORKER_HTTP_ALLOW", "127.0.0.1")];
    settings.extend_from_slice(more);
    let worker = RunningWorker::start(HistoryExpiry::Drop, &settings).await;
    (worker, dir)
}

async fn set_secret(worker: &RunningWorker, name: &str, value: &str) {
    let keys = SecretKeys::parse(key_line("k", &[1; KEY_BYTES]).expose_secret()).unwrap();
    let place = SecretPlace { tenant: DEFAULT_TENANT, project: None, name };
    let value = SecretValue::new(value.to_owned().into()).unwrap();
    let mut conn = worker.fixture.conn().await;
    secrets::put(&mut conn, NewValue { place, value: &value, source: "tests" }, &keys).await.unwrap();
}

/// Creates a message to a new channel, and returns the arguments of its job.
async fn message(worker: &RunningWorker, kind: &str, columns: &str, values: &str) -> Value {
    let body = json!({"type": "failure", "tenant": "default", "job": "nightly", "error": "exit code 3", "held_back": 2});
    worker.fixture
        .sql(&format!(
            "INSERT INTO notification_channels (tenant_id, name, kind, {columns}) VALUES ('{DEFAULT_TENANT}', '{kind}', '{kind}', {values});
             INSERT INTO notification_deliveries (tenant_id, id, channel_id, channel_name, rule_id, rule_name, kind, event_transaction_id,
                                                  event_id, body)
             SELECT tenant_id, gen_random_uuid(), id, name, gen_random_uuid(), 'r', 'failure', 1, 1, '{body}' FROM notification_channels"
        ))
        .await;
    let id = worker.text("SELECT id FROM notification_deliveries").await;
    json!({"tenant": DEFAULT_TENANT.to_string(), "delivery": id})
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_is_signed_and_retried_with_the_same_id() {
    let server = web_server(&[500, 200]);
    let (worker, _dir) = worker(&[]).await;
    set_secret(&worker, "hook", &format!("whsec_{}", STANDARD.encode(KEY))).await;
    let args = message(&worker, "webhook", "url, secret", &format!("'{}', 'hook'", server.url(HOOK))).await;
    let (status, _, error) = worker.run("sched.notify", &args).await;
    assert_eq!((status.as_str(), error.split(':').next()), ("FAILED", Some("error_response")), "{error}");
    worker
        .fixture
        .sql("UPDATE job_dispatch SET claimable_at = now(), available_at = now() WHERE status = 'PENDING'")
        .await;
    wait_for("it is taken", PATIENCE, async || {
        let status = worker.text("SELECT status FROM job_dispatch").await;
        if status == "COMPLETED" { Ok(()) } else { Err(status) }
    })
    .await;

    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", HOOK));
        assert_eq!(request.version, "HTTP/1.1");
        let header = |name: &str| request.header(name).unwrap_or_else(|| panic!("no {name} in {request:?}"));
        assert_eq!(header("content-type"), "application/json");
        let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
        assert_eq!(args["delivery"], id);
        let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).unwrap();
        mac.update(format!("{id}.{timestamp}.{}", request.text()).as_bytes());
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        assert_eq!(header("webhook-signature"), expected);
        let body = request.json();
        assert_eq!((&body["job"], &body["held_back"]), (&json!("nightly"), &json!(2)));
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_url_is_never_stored_or_logged() {
    let server = web_server(&[200, 404]);
    let (worker, _dir) = worker(&[]).await;
    set_secret(&worker, "chat-url", &server.url(HOOK)).await;
    let args = message(&worker, "chat", "secret", "'chat-url'").await;
    let (status, result, error) = worker.run("sched.notify", &args).await;
    assert_eq!((status.as_str(), error.as_str()), ("COMPLETED", ""));
    assert_eq!(result, json!({"kind": "chat", "status": 200}));
    let request = server.requests().remove(0);
    assert_eq!(request.header("webhook-signature"), None, "{request:?}");
    let text =
        "Job nightly failed (default)\nexit code 3\nSuppressed since the last message: 2 more of this kind";
    assert_eq!(request.json(), json!({"text": text}));

    let refused = fails(&worker, &args).await;
    assert!(refused.starts_with("request_rejected: the server answered 404"), "{refused}");
    set_secret(&worker, "chat-url", "no URL T0K3N").await;
    let useless = fails(&worker, &args).await;
    assert_eq!(useless, "invalid_channel: the secret \"chat-url\" is not a callable URL");
    worker.fixture.sql("DELETE FROM secrets").await;
    let missing = fails(&worker, &args).await;
    assert!(missing.starts_with("missing_secret: the tenant has no secret \"chat-url\""), "{missing}");
    let kept = "SELECT count(*) FROM (SELECT e::text AS row FROM event_stream e UNION ALL SELECT d::text FROM job_dispatch d
                UNION ALL SELECT l::text FROM job_execution_log l UNION ALL SELECT o::text FROM job_execution_output o) AS x
                WHERE row ILIKE '%T0K3N%'";
    assert_eq!(worker.text(kept).await, "0");
    worker.stop().await;
}

/// Sends a failing message, checks that the job's history shows only the class, and returns the
/// error for the tenant.
async fn fails(worker: &RunningWorker, args: &Value) -> String {
    // Prevents concurrent retries of earlier runs.
    worker.fixture.sql("UPDATE job_dispatch SET claimable_at = 'infinity' WHERE status = 'PENDING'").await;
    let (_, _, error) = worker.run("sched.notify", args).await;
    let (class, shown) = error.split_once(": ").unwrap();
    assert_eq!(shown, "the message was not sent; the notification deliveries of the tenant show the reason");
    let shown_to_tenant =
        worker.text("SELECT error_class || ': ' || error_message FROM notification_deliveries").await;
    assert!(shown_to_tenant.starts_with(&format!("{class}: ")), "{shown_to_tenant}");
    shown_to_tenant
}

/// Receives e-mails and returns their envelopes and texts. `refused` maps addresses to rejections.
async fn take_mails(listener: TcpListener, count: usize, refused: &[(&str, &str)]) -> Vec<String> {
    let mut mails = Vec::new();
    for _ in 0..count {
        let (stream, _) = listener.accept().await.unwrap();
        mails.push(take_mail(BufReader::new(stream), refused).await);
    }
    mails
}

async fn take_mail(mut stream: BufReader<TcpStream>, refused: &[(&str, &str)]) -> String {
    stream.write_all(b"220 test\r\n").await.unwrap();
    let mut all = String::new();
    let mut is_data = false;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap() == 0 {
            return all;
        }
        all.push_str(&line);
        let no = refused.iter().find(|(address, _)| line.starts_with(&format!("RCPT TO:<{address}>")));
        let answer = match (line.trim_end(), no) {
            (".", _) if is_data => {
                is_data = false;
                "250 taken"
            }
            _ if is_data => continue,
            (_, Some((_, answer))) => answer,
            ("DATA", _) => {
                is_data = true;
                "354 go on"
            }
            ("QUIT", _) => return all,
            _ => "250 fine",
        };
        stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
    }
}

async fn mailing_worker() -> (RunningWorker, TcpListener, tempfile::TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let (worker, dir) =
        worker(&[("WORKER_SMTP_URL", &url), ("WORKER_SMTP_FROM", "Sched <sched@example.com>")]).await;
    (worker, listener, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn email_is_sent_to_all_addresses() {
    let (worker, listener, _dir) = mailing_worker().await;
    let args = message(&worker, "email", "addresses", "'{ada@example.com,ops@example.com}'").await;
    let mails = spawn_owned("mail server", async move { take_mails(listener, 2, &[]).await });
    let (status, _, error) = worker.run("sched.notify", &args).await;
    assert_eq!((status.as_str(), error.as_str()), ("COMPLETED", ""));
    for (mail, to) in mails.await.unwrap().iter().zip(["ada", "ops"]) {
        for part in [
            "MAIL FROM:<sched@example.com>",
            &format!("RCPT TO:<{to}@example.com>"),
            "To: ada@example.com, ops@example.com\r\n",
            "Subject: Job nightly failed (default)\r\n",
            "exit code 3\r\n",
            &format!("Message-ID: <{}@example.com>", args["delivery"].as_str().unwrap()),
        ] {
            assert!(mail.contains(part), "{part} is not in {mail}");
        }
        assert_eq!(mail.matches("RCPT TO").count(), 1, "{mail}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_address_does_not_block_other_addresses() {
    let (worker, listener, _dir) = mailing_worker().await;
    let args =
        message(&worker, "email", "addresses", "'{gone@example.com,full@example.com,ops@example.com}'").await;
    let mails = spawn_owned("mail server", async move {
        let no = [("gone@example.com", "550 5.1.1 nobody here"), ("full@example.com", "452 4.2.2 no room")];
        let first = take_mails(listener, 5, &no).await;
        first.iter().map(|mail| mail.matches("exit code 3").count()).collect::<Vec<_>>()
    });
    let shown_to_tenant = fails(&worker, &args).await;
    let expected = "mail_deferred: 2 of 3 addresses: gone@example.com: ";
    assert!(
        shown_to_tenant.starts_with(expected)
            && shown_to_tenant.contains("nobody here")
            && shown_to_tenant.contains("no room"),
        "{shown_to_tenant}"
    );
    assert_eq!(worker.text("SELECT reached FROM notification_deliveries").await, "{ops@example.com}");
    // The retry sends to the other two addresses only.
    fails(&worker, &args).await;
    assert_eq!(mails.await.unwrap(), [0, 0, 1, 0, 0]);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unsendable_message_is_not_retried() {
    let (worker, _dir) = worker(&[]).await;
    let args = message(&worker, "email", "addresses", "'{ada@example.com}'").await;
    let (status, _, error) = worker.run("sched.notify", &args).await;
    assert_eq!(status, "FAILED");
    assert_eq!(error, "not_configured: WORKER_SMTP_URL is not set on this worker");
    worker.fixture.sql("DELETE FROM notification_channels").await;
    assert_eq!(fails(&worker, &args).await, "channel_deleted: the channel email was deleted");
    let nobody = json!({"tenant": DEFAULT_TENANT.to_string(), "delivery": uuid::Uuid::from_u128(1)});
    let (_, _, error) = worker.run("sched.notify", &nobody).await;
    assert!(error.starts_with("no_such_message: "), "{error}");
    let open = "SELECT count(*) FROM job_dispatch WHERE status IN ('PENDING', 'IN_PROGRESS')";
    assert_eq!(worker.text(open).await, "0");
    worker.stop().await;
}
