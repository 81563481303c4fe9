//! Dependencies between jobs: in manifests, in single requests, and rejected ones.

use serde_json::{Value, json};

use crate::support::{TestApp, function, manual, pointers};

fn after(name: &str, after: &[(&str, &str)]) -> Value {
    let mut job = manual(name);
    job["after"] = after.iter().map(|(job, on)| json!({"job": job, "on": on})).collect();
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_order_of_dependencies_does_not_matter() {
    let app = TestApp::start().await;
    let last = after("a-last", &[("middle", "failure"), ("z-first", "success")]);
    let manifest = json!({
        "task_functions": [function("f")],
        "jobs": [last, after("middle", &[("z-first", "completion")]), manual("z-first")],
    });
    assert!(app.apply(&manifest).await.iter().all(|line| line.ends_with(" created")));
    assert!(app.apply(&manifest).await.iter().all(|line| line.ends_with(" unchanged")));
    let last = app.get("/api/v1/jobs/a-last").await.json();
    assert_eq!(
        last["after"],
        json!([{"job": "middle", "on": "failure"}, {"job": "z-first", "on": "success"}])
    );
    assert_eq!((&last["after_mode"], &last["followed_by"]), (&json!("all"), &json!([])));
    let first = app.get("/api/v1/jobs/z-first").await.json();
    let followed_by = json!([{"job": "a-last", "on": "success"}, {"job": "middle", "on": "completion"}]);
    assert_eq!((&first["after"], &first["followed_by"]), (&json!([]), &followed_by));
    let list = app.get("/api/v1/jobs").await.json();
    assert_eq!(list["items"][2]["followed_by"], followed_by);
}

#[tokio::test(flavor = "multi_thread")]
async fn dependency_cycles_and_missing_jobs_are_refused() {
    let app = TestApp::start().await;
    app.with_jobs(&["known"]).await;
    let rows = "SELECT (SELECT count(*) FROM scheduled_jobs) + (SELECT count(*) FROM job_dependencies)";
    let circle = json!({"jobs": [
        after("a", &[("known", "success"), ("c", "success")]),
        after("b", &[("a", "success")]),
        after("c", &[("b", "success")]),
    ]});
    let answer = app.post("/api/v1/apply", &circle).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (422, Some("invalid")), "{}", answer.body);
    assert_eq!(pointers(&answer.json()), ["/jobs/0/after/1/job"]);
    assert!(answer.body.contains("a → b → c → a"), "{}", answer.body);

    let missing = json!({"jobs": [after("a", &[("known", "success"), ("nobody", "success")]), after("b", &[("none", "failure")])]});
    let answer = app.post("/api/v1/apply", &missing).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert_eq!(pointers(&answer.json()), ["/jobs/0/after/1/job", "/jobs/1/after/0/job"]);

    for (wrong, pointer) in [
        (after("a", &[("nobody", "success")]), "/after/0/job"),
        (after("a", &[("known", "success"), ("a", "success")]), "/after/1/job"),
        (after("a", &[("known", "sometimes")]), "/after/0/on"),
    ] {
        let answer = app.post("/api/v1/jobs", &wrong).await;
        assert_eq!(
            (answer.status, pointers(&answer.json())),
            (422, vec![pointer.to_owned()]),
            "{}",
            answer.body
        );
    }
    assert_eq!(app.fixture.number(rows).await, 1);
    let created = app.post("/api/v1/jobs", &after("a", &[("known", "failure")])).await;
    assert_eq!((created.status, app.fixture.number(rows).await), (201, 3), "{}", created.body);
}
