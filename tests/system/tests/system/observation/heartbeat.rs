//! The leader calls the heartbeat URL; a standby does not.

use scripted_http::{Response, Server};
use system_tests::{Installation, PATIENCE};
use test_support::wait_for;

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_calls_the_heartbeat_url() {
    let receivers = [(); 2].map(|()| Server::start(Response::new(200)));
    let mut system = Installation::with(0, 0).await;
    for receiver in &receivers {
        let url = receiver.url("/key");
        system.start_scheduler(&[("HEARTBEAT_URL", &url), ("WORKER_HTTP_ALLOW", "127.0.0.1")]).await;
    }
    let leader = system.leader().await;
    let call = wait_for("the heartbeat", PATIENCE, async || {
        receivers[leader].requests().into_iter().next().ok_or_else(|| "no call".to_owned())
    })
    .await;
    assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", "/key"));
    assert_eq!(receivers[1 - leader].connections(), 0, "the standby does not call");
}
