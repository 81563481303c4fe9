//! Hostile servers: attempts end in time, within bounds and with the right error class.

use std::time::Duration;

use sched_runtime::monotonic_clock::monotonic;
use sched_worker::handlers::{ErrorClass, Outcome};
use scripted_http::{Response, Server, Step};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{call, config, execution, handler, wait_for};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";

#[tokio::test]
async fn slow_response_times_out_with_the_attempt() {
    let drip = |bytes: &str| Step::Drip(bytes.as_bytes().to_vec(), Duration::from_millis(50));
    for (steps, doing) in [
        (vec![Step::send(format!("{HEAD}\r\n")), drip("x")], "while reading the response"),
        (vec![Step::send(HEAD), drip("X-A: b\r\n")], "while waiting for the response"),
        (vec![drip("HTTP/1.1 100 Continue\r\n\r\n")], "while waiting for the response"),
        (vec![Step::Hang], "while waiting for the response"),
    ] {
        let server = Server::start(steps);
        let mut execution = execution(config(&server, json!({})));
        execution.timeout = Duration::from_secs(2);
        let began = monotonic();
        let report = handler(&["127.0.0.1"]).run(&execution, &CancellationToken::new()).await;
        let message = report.error_message.unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "{message}");
        assert_eq!(report.error_class, Some(ErrorClass::Timeout), "{message}");
        assert_eq!(report.outcome, Outcome::TimedOut);
        assert!(message.contains(doing), "{message}");
        let is_reading = doing.contains("reading");
        assert_eq!(report.stdout.head.contains('x'), is_reading, "the received part is kept");
        wait_for("the connection is closed", || server.ended_connections() == 1).await;
    }
}

#[tokio::test]
async fn malformed_response_is_invalid() {
    let header = format!("X-Long: {}\r\n", "y".repeat(8_000));
    for steps in [
        vec![Step::send(HEAD), Step::Flood(header.into_bytes())],
        vec![Step::send(HEAD), Step::send("X-A: b\r\n".repeat(200)), Step::send("\r\n")],
        vec![Step::send("SSH-2.0-OpenSSH_9.2\r\n\r\n")],
        vec![Step::Flood(vec![0; 1024])],
        vec![Step::send("HTTP/1.1 two hundred\r\n\r\n")],
        vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")],
        vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")],
        vec![Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello")],
        vec![Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")],
    ] {
        let shown = format!("{steps:.60?}");
        let server = Server::start(steps);
        let report = call(&server, json!({})).await;
        let message = report.error_message.unwrap_or_default();
        assert_eq!(report.error_class, Some(ErrorClass::ResponseInvalid), "{shown}: {message}");
    }
}

#[tokio::test]
async fn endless_body_is_cut_and_marked() {
    let endless = vec![Step::send(format!("{HEAD}\r\n")), Step::Flood(b"0123456789".repeat(1000))];
    let server = Server::start(endless.clone());
    let report = call(&server, json!({"max_response_chars": 25})).await;
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert_eq!(report.stdout.head, "0123456789012345678901234");
    assert!(report.stdout.dropped_bytes > 0 && report.stdout.total_bytes > 25);
    wait_for("the connection is closed", || server.ended_connections() == 1).await;

    let server = Server::start(endless);
    let report = call(&server, json!({"result": "/a"})).await;
    assert_eq!(report.error_class, Some(ErrorClass::ResponseInvalid));
}

#[tokio::test]
async fn compressed_response_is_not_decompressed() {
    // A million compressed blanks, although the request did not accept compression.
    let bomb = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3].repeat(100);
    let head = format!("{HEAD}Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len());
    let server = Server::start([Step::send(head), Step::send(bomb)]);
    let report = call(&server, json!({})).await;
    assert_eq!(
        (report.outcome, report.stdout.head.as_str()),
        (Outcome::Succeeded, "(gzip of 1000 bytes, not decompressed)\n")
    );
    assert_eq!(report.stdout.dropped_bytes, 1000);
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let redirect = Response::new(302).header("Location", "http://169.254.169.254/latest/meta-data/");
    let server = Server::start(redirect.body("moved"));
    let report = call(&server, json!({})).await;
    assert_eq!(report.error_class, Some(ErrorClass::RequestRejected));
    assert!(report.error_message.unwrap().contains("redirects are not followed"));
    assert_eq!((report.stdout.head.as_str(), server.connections()), ("moved", 1));
    let expected = call(&server, json!({"expect_status": [302]})).await;
    assert_eq!(expected.outcome, Outcome::Succeeded);
}

#[tokio::test]
async fn request_without_response_is_not_resent() {
    for steps in [vec![Step::Reset], vec![]] {
        let server = Server::start(steps);
        let report = call(&server, json!({})).await;
        assert_eq!(report.error_class, Some(ErrorClass::Unreachable), "{:?}", report.error_message);
        assert_eq!((server.connections(), server.requests().len()), (1, 1));
    }
}

#[tokio::test]
async fn cancelled_attempt_closes_its_connection() {
    let server = Server::start([Step::Hang]);
    let cancel = CancellationToken::new();
    let (handler, execution) = (handler(&["127.0.0.1"]), execution(config(&server, json!({}))));
    let (report, ()) = tokio::join!(handler.run(&execution, &cancel), async {
        wait_for("the request came", || server.requests().len() == 1).await;
        cancel.cancel();
    });
    assert_eq!((report.outcome, report.error_class), (Outcome::Cancelled, Some(ErrorClass::Cancelled)));
    wait_for("the connection is closed", || server.ended_connections() == 1).await;
}
