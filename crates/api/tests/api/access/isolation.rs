//! Every route, with every role and with names of another tenant, neither reveals nor changes that
//! tenant: once with queries and row-level security, once with the queries alone.
//!
//! A route of the OpenAPI document without a probe fails the test.

mod probes;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_support::http::Answer;
use test_support::identity::bearer;
use uuid::Uuid;

use self::probes::{Kind, probes};
use crate::access::permissions::{make_key, member, routes};
use crate::operations::web_sockets::Socket;
use crate::support::{Request, TestApp, function, manual, send};

/// Part of every name of the other tenant only.
const MARK: &str = "zanzibar";

const NO_ENTRY: &str = "9223372036854775807";
const NO_EVENT: &str = "0.1.1.1";

struct Two {
    app: TestApp,
    /// Ids of the other tenant and names with [`MARK`]: no answer may contain one that the request
    /// did not contain.
    foreign: Vec<String>,
    job: String,
    dispatch: String,
    execution: String,
    dead: String,
    delivery: String,
    session: String,
    entry: String,
    event: String,
    key: String,
    prefix: String,
}

impl Two {
    async fn new() -> Self {
        let app = TestApp::start().await;
        app.with_jobs(&["ours"]).await;
        assert_eq!(app.post("/api/v1/jobs/ours/trigger", &json!({})).await.status, 202);
        assert_eq!(app.post("/api/v1/tenants", &json!({"slug": MARK})).await.status, 201);
        let them = member(&app, &format!("ann@{MARK}.example"), MARK, "owner").await;
        let as_them = async |method: &str, path: &str, body: &Value| {
            let headers = [("authorization", them.as_str()), ("content-type", "application/json")];
            let path = format!("/api/v1{path}");
            let answer =
                send(app.addr, Request::new(method, &path).headers(&headers).body(&body.to_string())).await;
            assert!(answer.status < 300, "{method} {path}: {}", answer.body);
            answer.json()
        };
        let mut job = manual(MARK);
        job["function"] = json!(MARK);
        as_them("POST", "/apply", &json!({"task_functions": [function(MARK)], "jobs": [job]})).await;
        as_them("PUT", &format!("/calendars/{MARK}"), &json!({"dates": ["2027-01-01"]})).await;
        as_them("PUT", &format!("/queues/{MARK}"), &json!({})).await;
        as_them("PUT", &format!("/projects/{MARK}"), &json!({})).await;
        let template = json!({"job": {"function": MARK, "job_type": "manual"}});
        as_them("PUT", &format!("/templates/{MARK}"), &template).await;
        let channel = json!({"kind": "webhook", "url": "https://example.com/"});
        as_them("PUT", &format!("/notification-channels/{MARK}"), &channel).await;
        as_them("PUT", &format!("/notification-rules/{MARK}"), &json!({"channel": MARK, "on": ["failure"]}))
            .await;
        let test = as_them("POST", &format!("/notification-channels/{MARK}/test"), &json!({})).await;
        let delivery = test["id"].as_str().unwrap().to_owned();
        as_them("PUT", &format!("/secrets/{MARK}"), &json!({"value": MARK})).await;
        let trigger = format!("/jobs/{MARK}/trigger");
        let dispatch = as_them("POST", &trigger, &json!({})).await["run_id"].as_str().unwrap().to_owned();
        let dead = as_them("POST", &trigger, &json!({})).await["run_id"].as_str().unwrap().to_owned();
        let (_, key) = make_key(&app, &them, &json!({"name": MARK, "scopes": ["jobs:read"]})).await;
        let client = app.fixture.client().await;
        let history = format!(
            "UPDATE job_dispatch SET status = 'DEAD_LETTER', claimable_at = NULL, completed_at = now(), attempt = 1,
                 error_message = '{MARK}' WHERE id = '{dead}';
             INSERT INTO dead_letters (tenant_id, dispatch_id, job_id, queue, died_at)
                 SELECT tenant_id, id, job_id, queue, now() FROM job_dispatch WHERE id = '{dead}';
             INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at,
                                            duration_ms, error_message, claim_token, triggered_by)
                 SELECT gen_random_uuid(), tenant_id, job_id, id, 1, 'FAILED', scheduled_for, now(), now(), 7, '{MARK}', 1, 'api'
                 FROM job_dispatch WHERE id = '{dead}';
             INSERT INTO job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content)
                 SELECT tenant_id, id, started_at, 'stdout', 0, '{MARK}' FROM job_execution_log;
             INSERT INTO sessions (tenant_id, id, user_id, token_hash, idle_until, expires_at, user_agent)
                 SELECT m.tenant_id, gen_random_uuid(), m.user_id, sha256('x'), now() + interval '1 h', now() + interval '1 h', '{MARK}'
                 FROM memberships m JOIN tenants t ON t.id = m.tenant_id WHERE t.slug = '{MARK}'"
        );
        client.batch_execute(&history).await.unwrap();
        let text = async |query: &str| client.query_one(query, &[]).await.unwrap().get::<_, String>(0);
        let job = text(&format!("SELECT id::text FROM scheduled_jobs WHERE name = '{MARK}'")).await;
        let execution = text("SELECT id::text FROM job_execution_log").await;
        let session = text("SELECT id::text FROM sessions").await;
        let tenant = text(&format!("SELECT id::text FROM tenants WHERE slug = '{MARK}'")).await;
        let newest = async |path: &str| {
            let list = as_them("GET", path, &Value::Null).await;
            list["items"][0]["id"].to_string().trim_matches('"').to_owned()
        };
        let (entry, event) = (newest("/audit-events").await, newest("/events").await);
        let (prefix, key) =
            (key["prefix"].as_str().unwrap().to_owned(), key["id"].as_str().unwrap().to_owned());
        let ids = [&job, &dispatch, &execution, &dead, &delivery, &session, &key, &prefix, &tenant];
        let foreign = ids.into_iter().cloned().chain([MARK.to_owned()]).collect();
        Self { app, foreign, job, dispatch, execution, dead, delivery, session, entry, event, key, prefix }
    }

    /// The path with names of the other tenant, and with names that do not exist.
    fn paths(&self, path: &str) -> Vec<(String, String)> {
        let none = unknown_id();
        if path == "/events/stream" {
            // Rejected before the endless stream begins.
            let path = format!("{path}?after=none");
            return vec![(path.clone(), path)];
        }
        let path = path.replace("{version}", "1");
        let path = path.as_str();
        let of_id = match path.split('/').nth(1) {
            Some("attempts") => &self.execution,
            Some("dead-letters") => &self.dead,
            Some("notification-deliveries") => &self.delivery,
            Some("sessions") => &self.session,
            _ if path.ends_with("/retry") => &self.dead,
            _ => &self.dispatch,
        };
        let email = format!("ann@{MARK}.example");
        let ways: &[(&str, &[&str], &str)] = &[
            ("{id}", &[of_id], &none),
            ("{job}", &[MARK, &self.job], "none"),
            ("{name}", &[MARK], "none"),
            ("{slug}", &[MARK], "none"),
            ("{key}", &[&self.key, &self.prefix], "none"),
            ("{entry}", &[&self.entry], NO_ENTRY),
            ("{event}", &[&self.event], NO_EVENT),
            ("{email}", &[&email], "nobody@example.com"),
        ];
        let Some((part, theirs, nobodys)) = ways.iter().find(|(part, ..)| path.contains(part)) else {
            assert!(!path.contains('{'), "add a value for the variable part of {path}");
            return vec![(path.to_owned(), path.to_owned())];
        };
        theirs.iter().map(|own| (path.replace(part, own), path.replace(part, nobodys))).collect()
    }

    async fn rows(&self) -> String {
        let client = self.app.fixture.client().await;
        let tables = "SELECT string_agg(format('SELECT %L || md5(t::text) AS row FROM %s t WHERE tenant_id IN (SELECT id FROM tenants WHERE slug = ''zanzibar'')',
                                               c.oid::regclass, c.oid::regclass), ' UNION ALL ')
                      FROM pg_class c WHERE c.relnamespace IN ('public'::regnamespace, 'maintenance'::regnamespace)
                        AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                        AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')";
        let tables: String = client.query_one(tables, &[]).await.unwrap().get(0);
        let all = format!(
            "SELECT count(*) || ' ' || md5(string_agg(row, ',' ORDER BY row)) FROM ({tables}) AS t (row)"
        );
        client.query_one(&all, &[]).await.unwrap().get(0)
    }

    async fn send(&self, key: &str, request: Request<'_>, body: &Value) -> Answer {
        let headers = [("authorization", key), ("content-type", "application/json")];
        let body = if body.is_null() { None } else { Some(body.to_string()) };
        let path = format!("/api/v1{}", request.path);
        let request = Request { path: &path, headers: &headers, body: body.as_deref(), ..request };
        self.app.send(request).await
    }

    fn shown(&self, answer: &Answer, sent: &str) -> Vec<&String> {
        let told = |what: &&String| answer.body.contains(what.as_str()) && !sent.contains(what.as_str());
        self.foreign.iter().filter(told).collect()
    }
}

/// The observable difference of an answer, for a caller that does not know the name.
fn verdict(two: &Two, answer: &Answer) -> (u16, String, String) {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let theirs = [
        format!("ann@{MARK}.example"),
        "nobody@example.com".to_owned(),
        unknown_id(),
        "none".to_owned(),
        format!("\"{NO_ENTRY}\""),
        NO_EVENT.to_owned(),
        format!("\"{}\"", two.entry),
        two.event.clone(),
    ];
    let names = theirs.iter().chain(&two.foreign);
    (
        answer.status,
        text("code"),
        names.fold(text("detail"), |detail, name| detail.replace(name.as_str(), "…")),
    )
}

fn unknown_id() -> String {
    Uuid::from_u128(0xdead).to_string()
}

async fn matrix(two: &Two) {
    let routes = routes(&two.app).await;
    let mut table = probes();
    let of_code: BTreeSet<_> = routes.iter().map(|one| (one.method.as_str(), one.path.as_str())).collect();
    let of_table: BTreeSet<_> = table.iter().map(|(method, path, ..)| (*method, *path)).collect();
    assert_eq!(of_code, of_table, "each route needs a probe with resources of another tenant");
    let mut keys = vec![("system operator", bearer().to_owned())];
    for role in ["viewer", "operator", "admin", "owner"] {
        keys.push((role, member(&two.app, &format!("{role}@ours.example"), "default", role).await));
    }
    let scopes = json!([
        "jobs:read",
        "jobs:write",
        "jobs:operate",
        "runs:read",
        "runs:operate",
        "keys:read",
        "keys:write"
    ]);
    let spec = json!({"name": "t", "of_tenant": true, "scopes": scopes});
    keys.push(("key of the tenant", make_key(&two.app, bearer(), &spec).await.0));
    let owner = keys.iter().find(|(role, _)| *role == "owner").map(|(_, key)| key.clone()).unwrap();
    let mut has = Vec::new();
    for (_, key) in &keys {
        has.push(two.send(key, Request::get("/me"), &Value::Null).await.json()["permissions"].to_string());
    }
    let before = two.rows().await;
    let (mut asked, mut refused) = (0, 0);
    table.sort_by_key(|(_, _, kind, _)| *kind);
    for (method, path, kind, body) in &table {
        let route = routes.iter().find(|one| one.method == *method && one.path == *path).unwrap();
        let without_key = two.send("", Request::new(method, &two.paths(path)[0].0), body).await;
        let expected = match (*method, *path) {
            ("GET", "" | "/openapi.json") => 200,
            ("POST", "/sessions") => 422,
            _ => 401,
        };
        assert_eq!(without_key.status, expected, "{method} {path}");
        asked += 1;
        for ((caller, key), has) in keys.iter().zip(&has) {
            let may = route.permission.as_ref().is_none_or(|needed| has.contains(&format!("\"{needed}\"")));
            // Every user may create own keys; this body is for a key of the tenant.
            let may = may && ((*method, *path) != ("POST", "/api-keys") || has.contains("\"keys:write\""));
            for (theirs, nobodys) in two.paths(path) {
                asked += 1;
                let sent = format!("{theirs} {body}");
                let about = format!("{caller}: {method} {theirs}");
                // Routes of the installation have no target.
                let path = if *kind == Kind::Installation { &nobodys } else { &theirs };
                let answer = two.send(key, Request::new(method, path), body).await;
                assert!(answer.status < 500 && answer.status != 401, "{about}: {}", answer.body);
                if !may {
                    refused += 1;
                    assert_eq!(answer.status, 403, "{about}: {}", answer.body);
                    assert_eq!(two.shown(&answer, &sent), Vec::<&String>::new(), "{about}");
                    continue;
                }
                assert_ne!(answer.status, 403, "{about}: {}", answer.body);
                let sees_all = *kind == Kind::Log && *caller == "system operator";
                if *kind != Kind::Installation && !sees_all {
                    assert_eq!(two.shown(&answer, &sent), Vec::<&String>::new(), "{about}: {}", answer.body);
                }
                match kind {
                    Kind::One => {
                        assert_eq!(answer.status, 404, "{about}: {}", answer.body);
                        let other = two.send(key, Request::new(method, &nobodys), body).await;
                        assert_eq!(verdict(two, &answer), verdict(two, &other), "{about}");
                    }
                    Kind::Names => {
                        assert_eq!(answer.status, 422, "{about}: {}", answer.body);
                        let body = serde_json::from_str(&body.to_string().replace(MARK, "none")).unwrap();
                        let other = two.send(key, Request::new(method, &nobodys), &body).await;
                        assert_eq!(verdict(two, &answer), verdict(two, &other), "{about}");
                    }
                    Kind::Writes => assert!([200, 201].contains(&answer.status), "{about}: {}", answer.body),
                    Kind::List | Kind::Log => assert_eq!(answer.status, 200, "{about}: {}", answer.body),
                    Kind::Own | Kind::Installation => {}
                }
            }
        }
    }
    // Filters of lists also take names.
    for path in ["/runs", "/attempts", "/dead-letters"] {
        let of_job = two.send(bearer(), Request::get(&format!("{path}?job={MARK}")), &Value::Null).await;
        assert_eq!(of_job.status, 404, "{path}: {}", of_job.body);
        for filter in
            [format!("job={}", two.job), format!("cursor={}", Uuid::max()), format!("run={}", two.dead)]
        {
            let answer = two.send(bearer(), Request::get(&format!("{path}?{filter}")), &Value::Null).await;
            assert_eq!(
                two.shown(&answer, &filter),
                Vec::<&String>::new(),
                "{path}?{filter}: {}",
                answer.body
            );
            asked += 1;
        }
        asked += 1;
    }
    let name = format!("function={MARK}&project={MARK}&queue={MARK}&template={MARK}&q={MARK}");
    let job = two.job.as_str();
    for (path, filter, status) in [
        ("/jobs", name.as_str(), 200),
        ("/jobs", "include=deleted&total=true", 200),
        ("/audit-events", &format!("target_id={job}"), 200),
        ("/audit-events", &format!("actor=ann@{MARK}.example"), 200),
        // A deleted job's events are found by its id, so an unknown id is accepted.
        ("/events", &format!("job={job}"), 200),
        ("/events", &format!("job={MARK}"), 404),
        // A resource of this name was created above.
        ("/events", &format!("project={MARK}"), 200),
        ("/events", &format!("run={}", two.dispatch), 200),
        ("/events", &format!("cursor={}", two.event), 200),
        ("/events/stream", &format!("job={MARK}"), 404),
        ("/secrets/x", &format!("project={MARK}"), 404),
    ] {
        let answer = two.send(&owner, Request::get(&format!("{path}?{filter}")), &Value::Null).await;
        let about = format!("{path}?{filter}: {}", answer.body);
        assert_eq!(answer.status, status, "{about}");
        assert_eq!(two.shown(&answer, &format!("{filter} {path}")), Vec::<&String>::new(), "{about}");
        asked += 1;
    }
    asked += sockets(two, &owner).await;
    assert_eq!(two.rows().await, before, "resources of the other tenant were changed");
    assert!(refused > 50, "{refused} of {asked} requests were rejected");
    println!("routes {}, probes {asked}, of which {refused} without the permission", routes.len());
}

/// The WebSocket is not in the document. Returns the number of tries.
async fn sockets(two: &Two, key: &str) -> usize {
    let authorization = format!("authorization: {key}\r\n");
    let refused = Socket::open(&two.app, &format!("?job={MARK}"), &authorization).await.err().unwrap();
    assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    for filter in [format!("?job={}", two.job), format!("?run={}", two.dispatch)] {
        assert!(Socket::open(&two.app, &filter, &authorization).await.is_ok(), "{filter}");
    }
    // Events of the other tenant are before and after the first stored event.
    let (mut socket, _) = Socket::open(&two.app, "?since=-1h", &authorization).await.unwrap();
    let pause = two.app.post("/api/v1/jobs/ours/pause", &json!({"reason": "the last of ours"})).await;
    assert_eq!(pause.status, 200, "{}", pause.body);
    loop {
        let message = socket.message().await.to_string();
        let ids = two.foreign.iter().filter(|what| what.parse::<Uuid>().is_ok());
        let told = ids.clone().find(|what| message.contains(what.as_str()));
        assert!(ids.count() > 3, "{:?}", two.foreign);
        assert_eq!(told, None, "{message}");
        if message.contains("job_paused") {
            return 4;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_reveal_nothing_of_another_tenant() {
    matrix(&Two::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_alone_isolate_tenants() {
    let two = Two::new().await;
    let open = "DO $$
        DECLARE t regclass;
        BEGIN
            FOR t IN SELECT oid FROM pg_class WHERE relrowsecurity LOOP
                EXECUTE format('CREATE POLICY everything ON %s TO sched_api USING (true) WITH CHECK (true)', t);
            END LOOP;
        END $$";
    two.app.fixture.sql(open).await;
    matrix(&two).await;
}
