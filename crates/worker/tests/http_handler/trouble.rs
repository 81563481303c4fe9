use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sched_runtime::tasks::spawn_owned;
use sched_worker::handlers::http::{HttpHandler, HttpSettings, Resolve, Resolving};
use sched_worker::handlers::{ErrorClass, Outcome};
use scripted_http::{Response, Server};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

use super::support::{ScriptedResolver, call, config, execution, handler, run, settings};

#[tokio::test]
async fn requested_wait_is_reported() {
    let server = Server::start(Response::new(429).header("Retry-After", "7").body("slow down"));
    let report = call(&server, json!({})).await;
    assert_eq!(report.error_class, Some(ErrorClass::ErrorResponse));
    assert_eq!(report.retry_after, Some(Duration::from_secs(7)));
    let capped = call(&server, json!({"retry_after_max_seconds": 3})).await;
    assert_eq!(capped.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn repeated_errors_open_the_circuit_per_tenant() {
    let server = Server::start(Response::new(503));
    let handler = handler(&["127.0.0.1"]);
    let config = config(&server, json!({"circuit_breaker": {"failures": 4, "cooldown_seconds": 600}}));
    let mut classes = Vec::new();
    for _ in 0..10 {
        classes.push(run(&handler, config.clone()).await.error_class.unwrap());
    }
    assert_eq!(classes[..4], [ErrorClass::ErrorResponse; 4]);
    assert_eq!(classes[4..], [ErrorClass::CircuitOpen; 6]);
    assert_eq!(server.requests().len(), 4, "nothing more was sent");
    let report = run(&handler, config.clone()).await;
    let wait = report.retry_after.unwrap();
    assert!(wait > Duration::from_secs(500) && wait <= Duration::from_secs(900), "{wait:?}");

    let mut other = execution(config);
    other.tenant_id = Uuid::from_u128(0xaa);
    let report = handler.run(&other, &Default::default()).await;
    assert_eq!(report.error_class, Some(ErrorClass::ErrorResponse));
}

#[tokio::test]
async fn rejected_requests_do_not_open_the_circuit() {
    let server = Server::start(Response::new(404));
    let handler = handler(&["127.0.0.1"]);
    let config = config(&server, json!({"circuit_breaker": {"failures": 2}}));
    for _ in 0..5 {
        assert_eq!(run(&handler, config.clone()).await.error_class, Some(ErrorClass::RequestRejected));
    }
}

#[derive(Debug)]
struct Silent;

impl Resolve for Silent {
    fn resolve<'a>(&'a self, _name: &'a str) -> Resolving<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn unreachable_target_is_reported() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let local = handler(&["127.0.0.1"]);
    let nobody = run(&local, json!({"url": format!("http://{closed}/")})).await;
    let silent = HttpSettings { resolver: Arc::new(Silent), ..HttpSettings::default() };
    let silent = HttpHandler::new(silent).unwrap();
    let slow = run(&silent, json!({"url": "http://example.com/", "connect_timeout_seconds": 1})).await;
    let resolver =
        HttpSettings { resolver: Arc::new(ScriptedResolver::default()), ..HttpSettings::default() };
    let unknown = run(&HttpHandler::new(resolver).unwrap(), json!({"url": "http://example.com/"})).await;
    for (report, words) in [
        (nobody, "failed to connect"),
        (slow, "failed to connect within 1s"),
        (unknown, "could not be resolved"),
    ] {
        let message = report.error_message.unwrap();
        assert_eq!(report.error_class, Some(ErrorClass::Unreachable), "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn certificate_needs_known_authority_and_matching_name() {
    let made = rcgen::generate_simple_self_signed(["service.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let tls = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let server = Server::start(Response::new(200).body("safe"));
    let address = server.address();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _proxy = spawn_owned("TLS proxy", async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                // A client that rejects the certificate disconnects during the handshake.
                let mut client = acceptor.accept(stream).await?;
                copy_bidirectional(&mut client, &mut TcpStream::connect(address).await?).await
            });
        }
    });
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(made.cert.pem().as_bytes()).unwrap();
    let resolver = Arc::new(ScriptedResolver::default());
    resolver.name("service.test", &[&["127.0.0.1"]]);
    resolver.name("other.test", &[&["127.0.0.1"]]);
    let with = |ca_file| HttpSettings { ca_file, resolver: resolver.clone(), ..settings(&["127.0.0.1"]) };
    let knows = HttpHandler::new(with(Some(file.path().to_owned()))).unwrap();
    let good = run(&knows, json!({"url": format!("https://service.test:{port}/")})).await;
    assert_eq!(
        (good.outcome, good.stdout.head.as_str()),
        (Outcome::Succeeded, "safe"),
        "{:?}",
        good.error_message
    );
    let other_name = run(&knows, json!({"url": format!("https://other.test:{port}/")})).await;
    let stranger = HttpHandler::new(with(None)).unwrap();
    let unknown = run(&stranger, json!({"url": format!("https://service.test:{port}/")})).await;
    for report in [other_name, unknown] {
        let message = report.error_message.unwrap();
        assert_eq!(report.error_class, Some(ErrorClass::Unreachable), "{message}");
        assert!(message.contains("TLS failed"), "{message}");
    }
    assert!(HttpHandler::new(with(Some("/nonexistent/ca.pem".into()))).is_err());
}
