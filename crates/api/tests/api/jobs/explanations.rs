use serde_json::{Value, json};

use crate::support::{TestApp, function, pointers};

async fn with_minutely() -> TestApp {
    let app = TestApp::start().await;
    let job = json!({"name": "minutely", "function": "f", "job_type": "cron", "schedule_config": {"expression": "* * * * *"}, "timezone": "Europe/Berlin"});
    app.apply(&json!({"task_functions": [function("f")], "jobs": [job]})).await;
    app.fixture
        .sql(
            "UPDATE scheduled_jobs SET created_at = date_trunc('minute', now()) - interval '60 minutes' - interval '1 second',
                 settled_until = date_trunc('minute', now()) - interval '60 minutes' - interval '1 second',
                 next_run_at = date_trunc('minute', now()) - interval '60 minutes'",
        )
        .await;
    app
}

async fn explained(app: &TestApp, query: &str) -> Value {
    let answer = app.get(&format!("/api/v1/jobs/minutely/explain{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn undecided_and_future_fires_are_explained() {
    let app = with_minutely().await;
    let told = explained(&app, "?from=-2h&to=%2B10m").await;
    let fates: Vec<&str> =
        told["fires"].as_array().unwrap().iter().map(|line| line["fate"].as_str().unwrap()).collect();
    assert_eq!(fates, ["not_created", "undecided", "to_come"], "{told}");
    let undecided = told["summary"]["undecided"].as_u64().unwrap();
    assert!((60..=62).contains(&undecided), "{told}");
    assert_eq!(told["summary"]["unaccounted"], 0);
    assert!(told["fires"][1]["text"].as_str().unwrap().contains("no scheduler has decided"), "{told}");
    let preview = app
        .get(&format!("/api/v1/jobs/minutely/preview?after={}&count=100", told["now"].as_str().unwrap()))
        .await
        .json();
    let to_come = told["summary"]["to_come"].as_u64().unwrap();
    let instant = |value: &Value| value.as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    assert_eq!(instant(&told["fires"][2]["first_fire_at"]), instant(&preview["fire_times"][0]["utc"]));
    assert!((9..=10).contains(&to_come), "{told}");
    assert!(told["summary"]["text"].as_str().unwrap().ends_with("0 unaccounted"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fire_without_record_is_unaccounted() {
    let app = with_minutely().await;
    app.fixture
        .sql("UPDATE scheduled_jobs SET settled_until = now(), next_run_at = date_trunc('minute', now()) + interval '1 minute'")
        .await;
    let told = explained(&app, "?from=-30m").await;
    let numbers = ["unaccounted", "undecided"].map(|key| told["summary"][key].as_u64().unwrap());
    assert!(numbers == [30, 0] || numbers == [29, 1], "{told}");
    assert_eq!(
        (&told["fires"][0]["fate"], &told["fires"][0]["fire_count"]),
        (&json!("unaccounted"), &json!(numbers[0]))
    );
    let dispatched = app.post("/api/v1/jobs/minutely/trigger", &json!({})).await.json();
    let told = explained(&app, "?from=-30m&to=%2B1m").await;
    assert_eq!(told["triggers"][0]["id"], dispatched["run_id"]);
    assert!(
        told["triggers"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("waiting: triggered by owner@example.com (api)"),
        "{told}"
    );
    assert_eq!((&told["summary"]["triggers"], &told["summary"]["dispatched"]), (&json!(1), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn default_window_is_the_last_day() {
    let app = with_minutely().await;
    let told = explained(&app, "").await;
    assert_eq!(told["to"], told["now"]);
    let length = |told: &Value| {
        let at = |key: &str| told[key].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
        (at("to") - at("from")).num_minutes()
    };
    assert_eq!(length(&told), 24 * 60);
    let local = explained(&app, "?from=2026-07-01%2010:00&to=2026-07-01T09:00:00Z").await;
    assert_eq!((&local["from"], length(&local)), (&json!("2026-07-01T08:00:00.000000Z"), 60));
}

#[tokio::test(flavor = "multi_thread")]
async fn instant_without_fire_names_its_neighbours() {
    let app = with_minutely().await;
    let told = explained(&app, "?from=-10m").await;
    let fire: chrono::DateTime<chrono::Utc> =
        told["fires"][0]["first_fire_at"].as_str().unwrap().parse().unwrap();
    let short =
        |seconds: i64| (fire + chrono::TimeDelta::seconds(seconds)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let near = |seconds: i64| short(seconds).replace('Z', ".000000Z");

    let there = explained(&app, &format!("?at={}", near(0))).await;
    assert_eq!((&there["from"], &there["to"]), (&json!(near(0)), &json!(near(1))));
    assert_eq!(
        (&there["summary"]["fire_times"], &there["fires"][0]["fate"]),
        (&json!(1), &json!("undecided"))
    );
    assert!(there.get("nearest").is_none(), "{there}");

    let between = explained(&app, &format!("?at={}", near(20))).await;
    let nearest = &between["nearest"];
    assert_eq!(between["summary"]["fire_times"], 0, "{between}");
    assert_eq!(
        (&nearest["before"]["fire_at"], &nearest["after"]["fire_at"]),
        (&json!(near(0)), &json!(near(60)))
    );
    assert_eq!(
        (&nearest["before"]["fate"], &nearest["before"]["outcome"]),
        (&json!("undecided"), &Value::Null)
    );
    let text = format!(
        "{} is not a fire time of the job; the nearest are {} before it and {} after it",
        short(20),
        short(0),
        short(60)
    );
    assert_eq!(nearest["text"], text);

    let long_ago = explained(&app, "?at=-30d").await;
    assert_eq!(long_ago["nearest"]["before"], Value::Null, "{long_ago}");
    assert_eq!(long_ago["nearest"]["after"]["fate"], "undecided", "{long_ago}");

    for (expression, before, after) in [
        ("0 0 29 2 *", "2024-02-29T00:00:00.000000Z", "2028-02-29T00:00:00.000000Z"),
        ("* * * 1-5 *", "2026-05-31T23:59:00.000000Z", "2027-01-01T00:00:00.000000Z"),
    ] {
        let job = json!({"name": "minutely", "function": "f", "job_type": "cron", "schedule_config": {"expression": expression}});
        app.apply(&json!({"jobs": [job]})).await;
        app.fixture
            .sql(&format!(
                "DELETE FROM skipped_fires;
                 UPDATE scheduled_jobs SET created_at = '2020-01-01Z', settled_until = '2020-01-01Z', next_run_at = '{after}';
                 UPDATE scheduled_job_versions SET changed_at = '2020-01-01Z' WHERE version > 1"
            ))
            .await;
        let told = explained(&app, "?at=2026-08-01T00:00:00Z").await;
        assert_eq!(
            (&told["nearest"]["before"]["fire_at"], &told["nearest"]["after"]["fire_at"]),
            (&json!(before), &json!(after)),
            "{expression}: {told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_windows_are_refused_with_the_fix() {
    let app = with_minutely().await;
    for (query, field, fix) in [
        ("?from=yesterday", "from", "RFC 3339"),
        ("?to=tomorrow", "to", "RFC 3339"),
        ("?from=-1h&to=-2h", "to", "later than the beginning"),
        ("?from=-1h&to=%2B52w", "from", "more than 10000 fire times; choose a shorter one"),
        ("?form=-1h", "form", "from"),
        ("?at=-1h&from=-2h", "at", "omit from and to"),
        ("?at=soon", "at", "RFC 3339"),
    ] {
        let answer = app.get(&format!("/api/v1/jobs/minutely/explain{query}")).await;
        assert_eq!((answer.status, pointers(&answer.json())), (400, vec![field.to_owned()]), "{query}");
        assert!(answer.body.contains(fix), "{query}: {}", answer.body);
    }
    assert_eq!(app.get("/api/v1/jobs/nobody/explain").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_and_run_show_why_they_wait() {
    let app = with_minutely().await;
    let told = explained(&app, "").await;
    let words = |told: &Value| {
        let waits = told["waits_for"].as_array().unwrap().iter();
        waits.map(|wait| wait["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(words(&told), ["no_leader", "no_worker", "fire_time"], "{told}");
    let dispatched = app.post("/api/v1/jobs/minutely/trigger", &json!({})).await.json();
    let id = dispatched["run_id"].as_str().unwrap();
    app.fixture.sql("UPDATE queues SET is_paused = true, pause_reason = 'disk is full'").await;
    let told = app.get(&format!("/api/v1/runs/{id}/explain")).await.json();
    let dispatch = &told["run"];
    assert_eq!((&told["job"], &dispatch["id"]), (&json!("minutely"), &json!(id)));
    assert_eq!(words(dispatch), ["queue_paused", "no_worker", "turn"], "{told}");
    assert_eq!(dispatch["waits_for"][0]["text"], "the queue default is paused: disk is full");
    assert_eq!(
        (&dispatch["waits_for"][2]["before"], &dispatch["waits_for"][2]["is_before_exact"]),
        (&json!(0), &json!(true))
    );
    assert!(
        dispatch["text"].as_str().unwrap().contains("(1) the queue default is paused: disk is full, (2)"),
        "{told}"
    );
    assert_eq!(explained(&app, "?to=%2B1m").await["triggers"][0]["waits_for"], dispatch["waits_for"]);
    let nobody = "/api/v1/runs/0190a0e0-0000-7000-8000-000000000001/explain";
    assert_eq!(app.get(nobody).await.status, 404);
    assert_eq!(app.get("/api/v1/runs/minutely/explain").await.status, 400);
}
