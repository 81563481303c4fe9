//! Limits of requests by address and by key.

use super::permissions::{get_as, member};
use crate::support::{LIMIT, Request, TestApp};
use test_support::identity::bearer;
use test_support::wait_for;

#[tokio::test(flavor = "multi_thread")]
async fn unknown_keys_are_rate_limited_by_address() {
    use sched_model::domain::identity::{ApiKey, ID_BYTES, SECRET_BYTES};
    use secrecy::ExposeSecret as _;
    let app = TestApp::start().await;
    assert_eq!(app.get("/api/v1/me").await.status, 200);
    let stranger = |number: u16| {
        let mut id = [0; ID_BYTES];
        id[..2].copy_from_slice(&number.to_be_bytes());
        format!("Bearer {}", ApiKey::new("live", id, [9; SECRET_BYTES]).text().expose_secret())
    };
    let from = async |authorization: &str, from: &str| {
        let headers = [("authorization", authorization), ("x-forwarded-for", from)];
        app.send(Request::get("/api/v1/me").headers(&headers)).await
    };
    let first = stranger(0);
    let mut asked = (0..u16::MAX).map(stranger);
    let limited = wait_for("the limit", LIMIT, async || {
        let answers = asked.by_ref().take(400).map(|key| async { from(&{ key }, "192.0.2.1").await });
        let answers = futures_util::future::join_all(answers.collect::<Vec<_>>()).await;
        // On a busy machine, some requests time out at the database.
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(statuses.iter().all(|status| [401, 429, 503].contains(status)), "{statuses:?}");
        answers.into_iter().find(|answer| answer.status == 429).ok_or_else(|| "none yet".to_owned())
    })
    .await;
    assert_eq!(
        (limited.json()["code"].as_str(), limited.header("retry-after")),
        (Some("too_many_requests"), Some("1"))
    );
    // The limit covers neither known keys from this address nor unknown keys from another one.
    assert_eq!(from(bearer(), "192.0.2.1").await.status, 200);
    assert_eq!(from(&first, "198.51.100.1").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_key_gets_retry_after() {
    let app = TestApp::start_with(&[("API_REQUEST_RATE", "1")]).await;
    let limited = wait_for("the limit", LIMIT, async || match app.get("/api/v1/me").await {
        answer if answer.status == 429 => Ok(answer),
        answer => Err(answer.status.to_string()),
    })
    .await;
    assert_eq!(limited.json()["code"], "too_many_requests");
    assert_eq!(limited.header("retry-after"), Some("1"));
    let other = member(&app, "ada@example.com", "default", "viewer").await;
    assert_eq!(get_as(&app, &other, "/api/v1/me").await.status, 200, "each key has its own budget");
}
