use serde_json::{Value, json};
use test_support::http::Answer;

use crate::support::{Request, TestApp, function, manual, pointers};

const PATH: &str = "/api/v1/templates/report";
const INSTANTIATE: &str = "/api/v1/templates/report/instantiate";

fn report() -> Value {
    json!({
        "description": "A report of one region.",
        "parameters": {
            "region": {"type": "string", "description": "where"},
            "minute": {"type": "integer", "default": 5},
            "tags": {"type": "array", "required": false},
        },
        "job": {
            "name": "report-{{region}}",
            "function": "f",
            "job_type": "cron",
            "schedule_config": {"expression": "{{minute}} 2 * * *"},
            "task_args": {"region": "{{region}}", "tags": "{{tags}}"},
        },
    })
}

async fn put(app: &TestApp, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    app.send(Request::put(PATH).headers(&all).body(&body.to_string())).await
}

async fn with_template() -> TestApp {
    let app = TestApp::start().await;
    app.apply(&json!({"task_functions": [function("f")]})).await;
    let made = put(&app, &[], &report()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn template_is_created_changed_listed_and_deleted() {
    let app = TestApp::start().await;
    let made = put(&app, &[("if-none-match", "*")], &report()).await;
    assert_eq!((made.status, made.header("location"), made.header("etag")), (201, Some(PATH), Some("\"1\"")));
    assert_eq!(made.json()["parameters"]["region"]["required"], true);
    let again = put(&app, &[], &report()).await;
    assert_eq!((again.status, again.header("etag")), (200, Some("\"1\"")), "nothing was written");
    assert_eq!(put(&app, &[("if-none-match", "*")], &report()).await.status, 412);
    let mut other = report();
    other["job"]["priority"] = json!(7);
    let changed = put(&app, &[("if-match", "\"1\"")], &other).await;
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")), "{}", changed.body);
    let stale = put(&app, &[("if-match", "\"1\"")], &report()).await;
    assert_eq!((stale.status, &stale.json()["code"]), (412, &json!("version_mismatch")));
    assert_eq!(app.get(PATH).await.json(), changed.json());
    assert_eq!(app.get("/api/v1/templates").await.json()["items"], json!([changed.json()]));

    assert_eq!(app.send(Request::delete(PATH).headers(&[("if-match", "\"1\"")])).await.status, 412);
    assert_eq!(app.send(Request::delete(PATH)).await.status, 204);
    assert_eq!(app.send(Request::delete(PATH)).await.status, 404);
    assert_eq!(app.get("/api/v1/templates/a%00b").await.status, 404);
    assert_eq!(app.fixture.number("SELECT count(*) FROM audit_log WHERE target_type = 'template'").await, 3);
    assert_eq!(app.fixture.number("SELECT count(*) FROM events WHERE event_type LIKE 'template_%'").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_templates_are_refused_with_pointers() {
    let app = TestApp::start().await;
    let mut wrong = report();
    wrong["parameters"]["minute"]["default"] = json!("five");
    wrong["job"]["queue"] = json!("{{tags}}-{{nobody}}");
    let refused = put(&app, &[], &wrong).await;
    assert_eq!(
        (refused.status, pointers(&refused.json())),
        (422, ["/job/queue", "/job/queue", "/parameters/minute/default"].map(str::to_owned).to_vec())
    );
    let mut unknown = report();
    unknown["job"]["colour"] = json!("red");
    assert_eq!(pointers(&put(&app, &[], &unknown).await.json()), ["/job/colour"]);
    let mut kind = report();
    kind["parameters"]["region"]["type"] = json!("text");
    assert_eq!(pointers(&put(&app, &[], &kind).await.json()), ["/parameters/region/type"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_from_template_names_its_template() {
    let app = with_template().await;
    let asked = json!({"parameters": {"region": "north", "tags": ["a", "b"]}});
    let key = [("content-type", "application/json"), ("idempotency-key", "one")];
    let made = app.send(Request::post(INSTANTIATE).headers(&key).body(&asked.to_string())).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let job = made.json();
    assert_eq!((&job["name"], &job["version"]), (&json!("report-north"), &json!(1)));
    assert_eq!(job["schedule_config"], json!({"expression": "5 2 * * *"}));
    assert_eq!(job["task_args"], json!({"region": "north", "tags": ["a", "b"]}));
    let from = json!({"template": "report", "version": 1, "parameters": asked["parameters"]});
    assert_eq!(job["made_from"], from);
    assert_eq!(app.get("/api/v1/jobs/report-north").await.json(), job);
    let again = app.send(Request::post(INSTANTIATE).headers(&key).body(&asked.to_string())).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    let taken = app.post(INSTANTIATE, &asked).await;
    assert_eq!((taken.status, &taken.json()["code"]), (409, &json!("already_exists")));
    assert_eq!(pointers(&taken.json()), ["/parameters/region"], "the name comes of it");

    let named =
        app.post(INSTANTIATE, &json!({"name": "n", "parameters": {"region": "x\", \"y\": \""}})).await;
    assert_eq!((named.status, &named.json()["task_args"]), (201, &json!({"region": "x\", \"y\": \""})));
    app.apply(&json!({"jobs": [manual("by-hand")]})).await;
    let listed = app.get("/api/v1/jobs?template=report").await.json();
    let names: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["n", "report-north"]);
    assert_eq!(app.send(Request::delete(PATH)).await.status, 204);
    assert_eq!(app.get("/api/v1/jobs/report-north").await.json()["made_from"], from, "it stays as it is");
    let audited = "SELECT count(*) FROM audit_log WHERE action = 'create_job' AND after->'made_from'->>'template' = 'report'";
    assert_eq!(app.fixture.number(audited).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_template_values_have_pointers() {
    let app = with_template().await;
    let table = [
        (json!({}), vec!["/parameters/region"]),
        (
            json!({"parameters": {"region": 7, "minutes": 7}}),
            vec!["/parameters/minutes", "/parameters/region"],
        ),
        (json!({"parameters": {"region": "north", "minute": 61}}), vec!["/parameters/minute"]),
        (json!({"parameters": {"region": "Not A Name"}}), vec!["/parameters/region"]),
        (json!({"name": "Not A Name", "parameters": {"region": "north"}}), vec!["/name"]),
        (json!({"parameter": {"region": "north"}}), vec!["/parameter"]),
    ];
    for (body, expected) in table {
        for path in [INSTANTIATE.to_owned(), format!("{PATH}/render")] {
            let refused = app.post(&path, &body).await;
            assert_eq!(
                (refused.status, pointers(&refused.json())),
                (422, expected.iter().map(|one| (*one).to_owned()).collect()),
                "{path} {body}: {}",
                refused.body
            );
        }
    }
    // An error that only the database detects, caused by the template alone.
    let mut lost = report();
    lost["job"]["function"] = json!("nobody");
    assert_eq!(put(&app, &[], &lost).await.status, 200, "it may come later");
    let refused = app.post(INSTANTIATE, &json!({"parameters": {"region": "north"}})).await;
    assert_eq!((refused.status, pointers(&refused.json())), (422, vec![String::new()]));
    assert!(refused.body.contains("the template sets an invalid /function"), "{}", refused.body);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM scheduled_jobs WHERE made_from IS NOT NULL").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn job_is_updated_from_its_template_on_request() {
    let app = with_template().await;
    let asked = json!({"parameters": {"region": "north"}, "replace": true});
    assert_eq!(app.post(INSTANTIATE, &asked).await.status, 201);
    let mut other = report();
    other["job"]["priority"] = json!(7);
    assert_eq!(put(&app, &[], &other).await.status, 200);
    let job = "/api/v1/jobs/report-north";
    assert_eq!(app.get(job).await.json()["made_from"]["version"], 1);
    let headers = [("content-type", "application/json"), ("if-match", "\"1\"")];
    let stale = app.send(Request::post(INSTANTIATE).headers(&headers).body(&asked.to_string())).await;
    assert_eq!((stale.status, &stale.json()["code"]), (412, &json!("version_mismatch")));
    let replaced = app.post(INSTANTIATE, &asked).await;
    assert_eq!((replaced.status, &replaced.json()["version"]), (200, &json!(2)), "{}", replaced.body);
    assert_eq!(
        (&replaced.json()["priority"], &replaced.json()["made_from"]["version"]),
        (&json!(7), &json!(2))
    );
    assert_eq!(app.get(job).await.json(), replaced.json());

    app.apply(&json!({"jobs": [manual("by-hand")]})).await;
    let mut over = asked.clone();
    over["name"] = json!("by-hand");
    let refused = app.post(INSTANTIATE, &over).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (409, &json!("already_exists")),
        "{}",
        refused.body
    );
    assert_eq!(app.get("/api/v1/jobs/by-hand").await.json()["job_type"], "manual", "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn job_preview_of_template_can_be_sent_back() {
    let app = with_template().await;
    let shown = app.post(&format!("{PATH}/render"), &json!({"parameters": {"region": "north"}})).await;
    assert_eq!((shown.status, &shown.json()["name"]), (200, &json!("report-north")), "{}", shown.body);
    assert_eq!(app.fixture.number("SELECT count(*) FROM scheduled_jobs WHERE scope = 'project'").await, 0);
    assert_eq!(app.post("/api/v1/jobs", &shown.json()).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_are_applied_with_a_file() {
    let app = TestApp::start().await;
    let mut template = report();
    template["name"] = json!("report");
    let manifest = json!({"task_functions": [function("f")], "templates": [template], "jobs": [manual("a")]});
    assert_eq!(
        app.apply(&manifest).await,
        ["task_function f created", "template report created", "job a created"]
    );
    let again = app.apply(&manifest).await;
    assert!(again.iter().all(|line| line.ends_with(" unchanged")), "{again:?}");
    template["job"]["priority"] = json!(101);
    template["parameters"]["region"]["default"] = json!("north");
    let refused = app.post("/api/v1/apply", &json!({"templates": [template]})).await;
    assert_eq!(
        (refused.status, pointers(&refused.json())),
        (422, vec!["/templates/0/job/priority".to_owned()])
    );
    let told = "SELECT count(*) FROM events WHERE event_type IN ('template_created', 'function_created')";
    assert_eq!(app.fixture.number(told).await, 2);
}
