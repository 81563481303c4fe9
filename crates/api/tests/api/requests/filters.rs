//! Filters and order of lists.

use super::lists::{listed, trigger};
use crate::support::{Request, TestApp};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn failing_matches_every_kind_of_failure() {
    let app = TestApp::start().await;
    let runs = ["waiting", "running", "succeeded", "failed", "timed_out", "cancelled", "dead_letter"];
    let attempts = ["succeeded", "failed", "timed_out", "cancelled", "lost", "released", "expired"];
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
             INSERT INTO worker_registration (worker_id, hostname, platform, process_id, version, queues, concurrency, lease_ms)
             SELECT worker_id, 'h', 'p', 1, '1', '{default}', 1, 30000 FROM job_dispatch WHERE status = 'IN_PROGRESS';
             INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds)
             SELECT worker_id, ARRAY[id], '{60}' FROM job_dispatch WHERE status = 'IN_PROGRESS';
             INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                 completed_at, duration_ms, claim_token, triggered_by)
             SELECT gen_random_uuid(), d.tenant_id, d.job_id, d.id, 1, s.state, d.scheduled_for, now(), now(), 7, 1, 'api'
             FROM (VALUES ('succeeded', 'COMPLETED'), ('failed', 'FAILED'), ('timed_out', 'TIMEOUT'), ('cancelled', 'CANCELLED'),
                 ('lost', 'LOST'), ('released', 'RELEASED'), ('expired', 'EXPIRED')) AS s (name, state)
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
    assert_eq!(
        listed("attempts?status=failing".into(), "job").await,
        ["expired", "failed", "lost", "timed_out"]
    );
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

/// Creates jobs with different functions, queues and projects, and triggers each once.
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
        ("triggered_by=API&status=Waiting&sort=CREATED_AT".to_owned(), vec!["b", "c"]),
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
async fn rare_attempts_are_found_in_sections() {
    let app = TestApp::start().await;
    app.with_jobs(&["a"]).await;
    let (usual, rare) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
    // The first two attempts are those of the rare worker, and no other one is lost.
    app.fixture
        .sql(&format!(
            "INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                 completed_at, duration_ms, claim_token, triggered_by, worker_id)
             SELECT lpad(to_hex(n), 32, '0')::uuid, j.tenant_id, j.id, gen_random_uuid(), 1,
                    CASE n WHEN 1 THEN 'LOST' ELSE 'COMPLETED' END, now(), now(), now(), 0, n, 'api',
                    CASE WHEN n < 3 THEN '{rare}'::uuid ELSE '{usual}'::uuid END
             FROM scheduled_jobs j, generate_series(1, 9000) AS n WHERE j.name = 'a'"
        ))
        .await;
    let page = async |query: &str| {
        let page = app.get(&format!("/api/v1/attempts?{query}")).await;
        assert_eq!(page.status, 200, "{query} {}", page.body);
        let page = page.json();
        assert!(page.get("searched_until").is_none(), "{query} {page}");
        let count = page["items"].as_array().unwrap().len();
        (count, page["next_cursor"].as_str().map(str::to_owned))
    };
    for sort in ["created_at", "-created_at"] {
        let (count, next) = page(&format!("worker={rare}&sort={sort}")).await;
        assert_eq!((count, next), (2, None), "{sort}");
        let first = page(&format!("worker={rare}&sort={sort}&limit=1")).await;
        let (1, Some(next)) = first else { panic!("{first:?}") };
        assert_eq!(
            page(&format!("worker={rare}&sort={sort}&limit=1&cursor={next}")).await,
            (1, None),
            "{sort}"
        );
        assert_eq!(page(&format!("status=lost&sort={sort}")).await, (1, None), "{sort}");
        assert_eq!(page(&format!("status=failing&worker={usual}&sort={sort}")).await, (0, None), "{sort}");
        assert_eq!(page(&format!("status=timed_out&sort={sort}&total=true")).await, (0, None), "{sort}");
        assert_eq!(page(&format!("triggered_by=scheduler&sort={sort}")).await, (0, None), "{sort}");
        let (count, next) = page(&format!("status=succeeded&sort={sort}&limit=200")).await;
        assert!(count == 200 && next.is_some(), "{sort}");
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
