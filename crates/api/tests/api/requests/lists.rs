use serde_json::{Value, json};

use crate::support::{Request, TestApp};

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

async fn trigger(app: &TestApp, job: &str) -> String {
    let answer = app.send(Request::post(&format!("/api/v1/jobs/{job}/trigger"))).await;
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_newest_first() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b"]).await;
    let mut expected = Vec::new();
    for job in ["a", "b", "a"] {
        expected.push((trigger(&app, job).await, job));
    }
    expected.sort();
    expected.reverse();
    let list = async |query: &str| ids(&app.get(&format!("/api/v1/runs{query}")).await.json());
    let all: Vec<String> = expected.iter().map(|(id, _)| id.clone()).collect();
    let of_a: Vec<String> =
        expected.iter().filter(|(_, job)| *job == "a").map(|(id, _)| id.clone()).collect();
    assert_eq!(list("").await, all);
    assert_eq!(list("?job=a").await, of_a);
    assert_eq!(list("?status=waiting&job=a").await, of_a);
    assert_eq!(list("?status=succeeded").await, Vec::<String>::new());
    let page = app.get("/api/v1/runs?limit=2").await.json();
    assert_eq!(ids(&page), all[..2]);
    let rest = format!("?limit=2&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(list(&rest).await, all[2..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_and_their_output_are_shown() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    let dispatch = trigger(&app, "report").await;
    app.fixture
        .sql(
            "INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                 completed_at, duration_ms, exit_code, result, error_class, error_message, output_bytes, claim_token, triggered_by)
             SELECT gen_random_uuid(), d.tenant_id, d.job_id, d.id, n, CASE n WHEN 1 THEN 'FAILED' ELSE 'COMPLETED' END, d.scheduled_for,
                 now(), now(), 7, n - 1, '{\"ok\": true}', CASE n WHEN 1 THEN 'exit_code' END, CASE n WHEN 1 THEN 'ended with 3' END, 5, 1, 'api'
             FROM job_dispatch d, generate_series(1, 2) n;
             INSERT INTO job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes)
             SELECT tenant_id, id, started_at, 'stdout', 0, 'hello', 0 FROM job_execution_log WHERE attempt = 2;",
        )
        .await;
    let all = app.get(&format!("/api/v1/attempts?run={dispatch}&job=report")).await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let newest_first = ids(&all);
    let oldest_first: Vec<String> = newest_first.iter().rev().cloned().collect();
    for (path, expected) in [
        ("attempts", &newest_first),
        ("attempts?sort=-created_at", &newest_first),
        ("attempts?sort=created_at&job=report", &oldest_first),
        ("jobs/report/attempts?sort=created_at", &oldest_first),
    ] {
        assert_eq!(listed(&app, path, "id").await, *expected, "{path}");
    }
    let first = app.get("/api/v1/attempts?sort=created_at&limit=1").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&first), oldest_first[..1]);
    let rest = listed(&app, &format!("attempts?sort=created_at&cursor={cursor}"), "id").await;
    assert_eq!(rest, oldest_first[1..]);
    assert_eq!(app.get(&format!("/api/v1/attempts?cursor={cursor}")).await.status, 400);
    let failed = app.get("/api/v1/attempts?status=failed").await.json();
    let shown = &failed["items"][0];
    assert_eq!((&shown["error_class"], &shown["attempt"]), (&json!("exit_code"), &json!(1)));
    assert_eq!((&shown["job"], &shown["result"]), (&json!("report"), &json!({"ok": true})));
    let completed = app.get("/api/v1/attempts?status=succeeded").await.json();
    let path = format!("/api/v1/attempts/{}", completed["items"][0]["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.json(), completed["items"][0]);
    let output = app.get(&format!("{path}/output")).await.json();
    let chunk = json!({"stream": "stdout", "chunk": 0, "content": "hello", "dropped_bytes": 0});
    assert_eq!(output["chunks"], json!([chunk]));
    let silent = format!("/api/v1/attempts/{}/output", shown["id"].as_str().unwrap());
    assert_eq!(app.get(&silent).await.json()["chunks"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn status_counts_resources() {
    let app = TestApp::start().await;
    app.with_jobs(&["report"]).await;
    trigger(&app, "report").await;
    let status = app.get("/api/v1/status").await.json();
    assert_eq!((&status["jobs_active"], &status["runs_waiting"]), (&json!(1), &json!(1)), "{status}");
    assert_eq!((&status["has_leader"], &status["workers_online"]), (&json!(false), &json!(0)));
    assert_eq!(
        (&status["queues"][0]["name"], &status["queues"][0]["waiting"]),
        (&json!("default"), &json!(1))
    );
    for path in ["/api/v1/workers", "/api/v1/schedulers"] {
        assert_eq!(app.get(path).await.json(), json!({"items": [], "next_cursor": null}), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_names_problems() {
    let app = TestApp::start().await;
    app.with_jobs(&["report", "broken"]).await;
    trigger(&app, "report").await;
    app.fixture
        .sql(
            "UPDATE queues SET is_paused = true, pause_reason = 'disk', rate_limit_count = 2, rate_limit_period_seconds = 60;
             INSERT INTO queue_usage (tenant_id, queue, claimed_at, claimed)
             SELECT tenant_id, name, ARRAY[clock_timestamp()], ARRAY[2] FROM queues WHERE name = 'default';
             UPDATE scheduled_jobs SET is_enabled = false, disabled_reason = 'no such zone', last_fire_at = now() WHERE name = 'broken'",
        )
        .await;
    let status = app.get("/api/v1/status").await.json();
    assert_eq!(status["jobs_quarantined"], 1, "{status}");
    assert_eq!(status["quarantined"], json!([{"name": "broken", "reason": "no such zone"}]));
    let queue = status["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "default").unwrap();
    let found = [
        "waiting",
        "is_paused",
        "pause_reason",
        "has_live_worker",
        "is_at_limit",
        "claimed_in_period",
        "running",
    ];
    assert_eq!(
        found.map(|key| queue[key].clone()),
        [json!(1), json!(true), json!("disk"), json!(false), json!(true), json!(2), Value::Null]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_schedulers_are_shown() {
    let app = TestApp::start().await;
    app.fixture
        .sql(
            "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
             VALUES (gen_random_uuid(), 'here', 'linux x86_64', 42, '1.0', ARRAY['default'], 3, 30000);
             INSERT INTO scheduler_instances (id, hostname, pid, version) VALUES (gen_random_uuid(), 'there', 43, '1.0');",
        )
        .await;
    let workers = app.get("/api/v1/workers").await.json();
    assert_eq!(
        (&workers["items"][0]["hostname"], &workers["items"][0]["queues"]),
        (&json!("here"), &json!(["default"]))
    );
    let schedulers = app.get("/api/v1/schedulers").await.json();
    assert_eq!(
        (&schedulers["items"][0]["pid"], &schedulers["items"][0]["is_leader"]),
        (&json!(43), &json!(false))
    );
    assert_eq!(app.get("/api/v1/status").await.json()["workers_online"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn living_workers_are_listed_first() {
    let app = TestApp::start().await;
    // Two living workers that started together, a later one, and three stopped ones (two at the
    // same time).
    let register = "INSERT INTO worker_registration
             (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms, started_at, status, offline_since)
         SELECT lpad(n::text, 32, '0')::uuid, n::text, 'p', 1, 'v', '{default}', 1, 30000, now() - make_interval(secs => 10 - started),
             CASE WHEN gone IS NULL THEN 'IDLE' ELSE 'OFFLINE' END, now() - make_interval(secs => gone)
         FROM (VALUES (1, 5, NULL), (2, 5, NULL), (3, 6, NULL), (4, 3, 1), (5, 1, 2), (6, 2, 2)) AS w (n, started, gone)";
    app.fixture.sql(register).await;
    let all = ["1", "2", "3", "4", "5", "6"];
    assert_eq!(listed(&app, "workers", "hostname").await, all);
    for limit in 1..=6 {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = app.get(&format!("/api/v1/workers?limit={limit}{cursor}")).await.json();
            for worker in page["items"].as_array().unwrap() {
                seen.push(worker["hostname"].as_str().unwrap().to_owned());
            }
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, all, "{limit} at once");
        let elsewhere = app.get(&format!("/api/v1/workers?status=idle{cursor}")).await;
        assert_eq!(elsewhere.status, if cursor.is_empty() { 200 } else { 400 }, "{}", elsewhere.body);
    }
    assert_eq!(listed(&app, "workers?status=offline&limit=2", "hostname").await, ["4", "5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_listed_by_name() {
    let app = TestApp::start().await;
    let function = |name: &str| crate::support::function(name);
    app.apply(&json!({"task_functions": [function("b"), function("a")]})).await;
    let page = app.get("/api/v1/functions?limit=1").await.json();
    assert_eq!(page["items"][0]["name"], "a");
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = app.get(&format!("/api/v1/functions?limit=1&cursor={cursor}")).await.json();
    assert_eq!((&page["items"][0]["display_name"], &page["next_cursor"]), (&json!("b"), &Value::Null));
    assert_eq!(page["items"][0]["handler_config"], json!({"program": "true"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_matches_every_kind_of_failure() {
    let app = TestApp::start().await;
    let runs = ["waiting", "running", "succeeded", "failed", "timed_out", "cancelled", "dead_letter"];
    let attempts = ["succeeded", "failed", "timed_out", "cancelled", "lost", "released"];
    let names = [&runs[..], &attempts[4..]].concat();
    app.with_jobs(&names).await;
    for name in names {
        trigger(&app, name).await;
    }
    app.fixture
        .sql(
            "WITH states (name, state) AS (VALUES ('running', 'IN_PROGRESS'), ('succeeded', 'COMPLETED'), ('failed', 'FAILED'),
                 ('timed_out', 'TIMEOUT'), ('cancelled', 'CANCELLED'), ('dead_letter', 'DEAD_LETTER')),
             jobs AS (SELECT j.id, s.state FROM scheduled_jobs j JOIN states s USING (name)),
             last AS (UPDATE scheduled_jobs j SET last_status = s.state FROM jobs s WHERE s.id = j.id AND s.state <> 'IN_PROGRESS')
             UPDATE job_dispatch d SET status = s.state, claimable_at = NULL, claimed_at = now(), claim_token = 1, attempt = 1,
                 worker_id = gen_random_uuid(), completed_at = CASE WHEN s.state <> 'IN_PROGRESS' THEN now() END
             FROM jobs s WHERE s.id = d.job_id;
             INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                 completed_at, duration_ms, claim_token, triggered_by)
             SELECT gen_random_uuid(), d.tenant_id, d.job_id, d.id, 1, s.state, d.scheduled_for, now(), now(), 7, 1, 'api'
             FROM (VALUES ('succeeded', 'COMPLETED'), ('failed', 'FAILED'), ('timed_out', 'TIMEOUT'), ('cancelled', 'CANCELLED'),
                 ('lost', 'LOST'), ('released', 'RELEASED')) AS s (name, state)
             JOIN scheduled_jobs j USING (name)
             JOIN job_dispatch d ON d.job_id = j.id;",
        )
        .await;
    let listed = async |path: String, key: &str| {
        let mut found = listed(&app, &path, key).await;
        found.sort();
        let separator = if path.contains('?') { '&' } else { '?' };
        let counted = app.get(&format!("/api/v1/{path}{separator}total=true")).await.json();
        assert_eq!(counted["total"], found.len(), "{path}");
        found
    };
    let failed_runs = ["dead_letter", "failed", "timed_out"];
    let many = "UPDATE scheduled_jobs SET total_run_count = total_run_count + 1000000";
    for _ in ["found by their jobs", "found among all runs"] {
        assert_eq!(listed("runs?status=failing".into(), "job").await, failed_runs);
        for status in runs.iter().filter(|status| **status != "waiting") {
            assert_eq!(listed(format!("runs?status={status}"), "job").await, [*status]);
        }
        app.fixture.sql(many).await;
    }
    assert_eq!(listed("attempts?status=failing".into(), "job").await, ["failed", "lost", "timed_out"]);
    for status in attempts {
        assert_eq!(listed(format!("attempts?status={status}"), "job").await, [status]);
    }
    assert_eq!(listed("jobs?last_status=failing".into(), "name").await, failed_runs);
    assert_eq!(listed("jobs/timed_out/runs?status=failing".into(), "job").await, ["timed_out"]);
    assert_eq!(listed("jobs/lost/attempts?status=failing".into(), "job").await, ["lost"]);
    assert_eq!(listed("jobs/succeeded/attempts?status=failing".into(), "job").await, [""; 0]);
    let refused = app.get("/api/v1/runs?status=lost").await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("failing"), "{}", refused.body);
}

async fn listed(app: &TestApp, path: &str, key: &str) -> Vec<String> {
    let page = app.get(&format!("/api/v1/{path}")).await;
    assert_eq!(page.status, 200, "{path}: {}", page.body);
    let items = page.json()["items"].as_array().unwrap().clone();
    items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

/// Different functions, queues and projects; each job is triggered once.
async fn with_runs(app: &TestApp) {
    for path in ["queues/fast", "projects/p"] {
        app.send(
            Request::put(&format!("/api/v1/{path}"))
                .headers(&[("content-type", "application/json")])
                .body("{}"),
        )
        .await;
    }
    let job = |name: &str, function: &str, queue: &str, project: &str| json!({"name": name, "function": function, "job_type": "manual", "queue": queue, "project": project});
    let functions = [crate::support::function("f"), crate::support::function("g")];
    let jobs =
        [job("a", "f", "default", "default"), job("b", "g", "fast", "default"), job("c", "f", "fast", "p")];
    app.apply(&json!({"task_functions": functions, "jobs": jobs})).await;
    for name in ["a", "b", "c"] {
        assert_eq!(app.post(&format!("/api/v1/jobs/{name}/trigger"), &json!({})).await.status, 202);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_filtered_and_sorted() {
    let app = TestApp::start().await;
    with_runs(&app).await;
    let worker = "0193a000-0000-7000-8000-000000000001";
    let claimed = format!(
        "UPDATE job_dispatch d SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = now(), worker_id = '{worker}',
             claim_token = 1, attempt = 1 FROM scheduled_jobs j WHERE j.id = d.job_id AND j.name = 'a'"
    );
    app.fixture.sql(&claimed).await;
    for (filter, jobs) in [
        ("".to_owned(), vec!["c", "b", "a"]),
        ("sort=-created_at".to_owned(), vec!["c", "b", "a"]),
        ("sort=created_at".to_owned(), vec!["a", "b", "c"]),
        ("queue=fast".to_owned(), vec!["c", "b"]),
        ("function=f".to_owned(), vec!["c", "a"]),
        ("project=p".to_owned(), vec!["c"]),
        (format!("worker={worker}"), vec!["a"]),
        ("triggered_by=api&status=waiting&sort=created_at".to_owned(), vec!["b", "c"]),
        ("triggered_by=scheduler".to_owned(), vec![]),
        ("function=f&queue=fast&total=true".to_owned(), vec!["c"]),
    ] {
        assert_eq!(listed(&app, &format!("runs?{filter}"), "job").await, jobs, "{filter}");
    }
    assert_eq!(listed(&app, "jobs/c/runs?queue=fast&sort=created_at", "job").await, ["c"]);
    let total = app.get("/api/v1/runs?function=f&limit=1&total=true").await.json();
    assert_eq!(total["total"], 2);

    let many = "UPDATE scheduled_jobs SET total_run_count = total_run_count + 1000000";
    app.fixture.sql(many).await;
    for (filter, jobs) in [
        ("sort=created_at", vec!["a", "b", "c"]),
        ("function=f&queue=fast", vec!["c"]),
        ("project=p", vec!["c"]),
    ] {
        assert_eq!(listed(&app, &format!("runs?{filter}"), "job").await, jobs, "{filter}");
    }
    let total = app.get("/api/v1/runs?function=f&limit=1&total=true").await.json();
    assert_eq!(total["total"], 2);
    let few = "UPDATE scheduled_jobs SET total_run_count = total_run_count - 1000000";
    app.fixture.sql(few).await;

    for (sort, expected) in [("created_at", ["a", "b", "c"]), ("-created_at", ["c", "b", "a"])] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = app.get(&format!("/api/v1/runs?sort={sort}&limit=1{cursor}")).await.json();
            seen.push(page["items"][0]["job"].as_str().unwrap().to_owned());
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, expected);
        for path in
            ["runs?limit=1", "runs?queue=fast", "attempts?limit=1", "calendars?limit=1", "users?limit=1"]
        {
            let refused = app.get(&format!("/api/v1/{path}{cursor}")).await;
            assert_eq!(refused.status, 400, "{path}: {}", refused.body);
            assert!(refused.body.contains("begin without a cursor"), "{path}: {}", refused.body);
        }
    }
    for (filter, status) in
        [("triggered_by=nobody", 400), ("function=none", 404), ("project=none", 404), ("sort=job", 400)]
    {
        assert_eq!(app.get(&format!("/api/v1/runs?{filter}")).await.status, status, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_filtered_by_worker_and_time() {
    let app = TestApp::start().await;
    with_runs(&app).await;
    let worker = "0193a000-0000-7000-8000-000000000001";
    // Ids contain the time of the claim: c was claimed and started two hours before a and b.
    let ran = format!(
        "INSERT INTO job_execution_log (id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
             completed_at, duration_ms, claim_token, triggered_by, worker_id)
         SELECT (lpad(to_hex(1000 * extract(epoch FROM r.at)::bigint), 12, '0') || '70008000' || right(md5(j.name), 12))::uuid,
             d.tenant_id, j.project_id, d.job_id, d.id, 1, 'COMPLETED', r.at, r.at, r.at, 0, 1,
             CASE j.name WHEN 'b' THEN 'scheduler' ELSE 'api' END, CASE j.name WHEN 'a' THEN '{worker}'::uuid END
         FROM job_dispatch d
         JOIN scheduled_jobs j ON j.id = d.job_id
         CROSS JOIN LATERAL (SELECT now() - CASE j.name WHEN 'c' THEN interval '2 h' WHEN 'b' THEN interval '2 s' ELSE interval '0 s' END) AS r (at)"
    );
    app.fixture.sql(&ran).await;
    for (filter, jobs) in [
        ("".to_owned(), vec!["a", "b", "c"]),
        ("sort=created_at".to_owned(), vec!["c", "b", "a"]),
        ("function=f".to_owned(), vec!["a", "c"]),
        ("function=f&sort=created_at".to_owned(), vec!["c", "a"]),
        ("project=p".to_owned(), vec!["c"]),
        (format!("worker={worker}"), vec!["a"]),
        ("worker=00000000-0000-0000-0000-000000000000".to_owned(), vec![]),
        ("triggered_by=scheduler".to_owned(), vec!["b"]),
        ("triggered_by=api&function=f&project=p".to_owned(), vec!["c"]),
        ("since=-90m".to_owned(), vec!["a", "b"]),
        ("since=-90m&sort=created_at".to_owned(), vec!["b", "a"]),
        ("until=-90m".to_owned(), vec!["c"]),
        ("until=-90m&sort=created_at".to_owned(), vec!["c"]),
        ("job=b&triggered_by=scheduler".to_owned(), vec!["b"]),
        ("job=b&triggered_by=api".to_owned(), vec![]),
    ] {
        assert_eq!(listed(&app, &format!("attempts?{filter}"), "job").await, jobs, "{filter}");
        let path = format!("/api/v1/attempts?{filter}&total=true");
        assert_eq!(app.get(&path).await.json()["total"], jobs.len(), "{filter}");
    }
    for (filter, count) in [(format!("worker={worker}"), 1), ("triggered_by=scheduler".to_owned(), 0)] {
        assert_eq!(listed(&app, &format!("jobs/a/attempts?{filter}"), "job").await.len(), count, "{filter}");
    }
    for (filter, status) in
        [("triggered_by=nobody", 400), ("function=none", 404), ("project=none", 404), ("worker=1", 400)]
    {
        assert_eq!(app.get(&format!("/api/v1/attempts?{filter}")).await.status, status, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_queues_workers_and_audit_events_are_filtered() {
    let app = TestApp::start().await;
    for (name, body) in [("fast", "{}"), ("fa_t", r#"{"is_paused": true}"#)] {
        let path = format!("/api/v1/queues/{name}");
        app.send(Request::put(&path).headers(&[("content-type", "application/json")]).body(body)).await;
    }
    for (filter, names) in [
        ("name_prefix=fa", vec!["fa_t", "fast"]),
        ("name_prefix=fa_", vec!["fa_t"]),
        ("name_prefix=fa&paused=false", vec!["fast"]),
        ("paused=true", vec!["fa_t"]),
    ] {
        assert_eq!(listed(&app, &format!("queues?{filter}"), "name").await, names, "{filter}");
    }
    let first = app.get("/api/v1/queues?name_prefix=fa&limit=1").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = listed(&app, &format!("queues?name_prefix=fa&cursor={cursor}"), "name").await;
    assert_eq!(rest, ["fast"]);
    assert_eq!(app.get(&format!("/api/v1/queues?cursor={cursor}")).await.status, 400);
    let mut quick = crate::support::function("ab_quick");
    quick["queue"] = json!("fast");
    let http =
        json!({"name": "ab_http", "handler_type": "http", "handler_config": {"url": "https://example.com/"}});
    app.apply(&json!({"task_functions": [crate::support::function("aba"), quick, http]})).await;
    app.send(Request::post("/api/v1/functions/aba/deactivate")).await;
    for (filter, names) in [
        ("name_prefix=ab", vec!["ab_http", "ab_quick", "aba"]),
        ("name_prefix=ab_", vec!["ab_http", "ab_quick"]),
        ("queue=fast", vec!["ab_quick"]),
        ("handler_type=http", vec!["ab_http"]),
        ("name_prefix=ab&is_active=false", vec!["aba"]),
    ] {
        assert_eq!(listed(&app, &format!("functions?{filter}"), "name").await, names, "{filter}");
    }
    app.fixture
        .sql(
            "INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms, status)
             VALUES (gen_random_uuid(), 'one', 'p', 1, '1', '{default,fast}', 1, 1000, 'IDLE'),
                    (gen_random_uuid(), 'two', 'p', 1, '1', '{default}', 1, 1000, 'BUSY')",
        )
        .await;
    assert_eq!(listed(&app, "workers?queue=fast", "hostname").await, ["one"]);
    assert_eq!(listed(&app, "workers?status=busy", "hostname").await, ["two"]);
    assert_eq!(listed(&app, "workers?status=busy&queue=fast", "hostname").await, [""; 0]);

    let newest = listed(&app, "audit-events?limit=200", "action").await;
    let mut oldest = listed(&app, "audit-events?limit=200&sort=created_at", "action").await;
    oldest.reverse();
    assert!(newest.len() > 3, "{newest:?}");
    assert_eq!(newest, oldest);
    let first = app.get("/api/v1/audit-events?sort=created_at&limit=2").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second =
        app.get(&format!("/api/v1/audit-events?sort=created_at&limit=2&cursor={cursor}")).await.json();
    assert!(second["items"][0]["id"].as_i64() > first["items"][1]["id"].as_i64());
}
