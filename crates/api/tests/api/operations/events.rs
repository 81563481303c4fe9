//! The event stream: complete, in order, resumable at any event, and fairly shared.

use std::collections::HashSet;

use futures_util::future::join_all;
use sched_model::events::stream::Event;
use serde_json::{Value, json};
use test_support::identity::bearer;
use test_support::{Client, wait_for};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::permissions::{make_key, member};
use crate::support::{LIMIT, Request, TestApp, function, manual};

pub(super) struct Follower {
    pub(super) stream: TcpStream,
    pub(super) text: String,
}

type Message = (Option<String>, String, Value);

impl Follower {
    pub(super) async fn open(app: &TestApp, authorization: &str, query: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(app.addr).await.unwrap();
        let request = format!(
            "GET /api/v1/events/stream{query} HTTP/1.1\r\nhost: {}\r\nauthorization: {authorization}\r\n{headers}\r\n",
            app.addr
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut follower = Self { stream, text: String::new() };
        follower.until("the beginning", |follower| follower.text.contains("\r\n\r\n")).await;
        follower
    }

    pub(super) async fn of(app: &TestApp, query: &str) -> Self {
        let mut follower = Self::open(app, bearer(), query, "").await;
        follower.until("the stream is open", |follower| !follower.messages().is_empty()).await;
        follower
    }

    pub(super) fn status(&self) -> &str {
        self.text.get(9..12).unwrap_or_default()
    }

    /// Reads until the condition holds.
    pub(super) async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let mut buffer = vec![0; 16 * 1024];
        while !is_so(self) {
            let read = tokio::time::timeout(LIMIT, self.stream.read(&mut buffer)).await;
            let count = read.unwrap_or_else(|_| panic!("not in time: {what}: {}", self.text)).unwrap();
            assert!(count > 0, "the stream ended before {what}: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }

    pub(super) fn messages(&self) -> Vec<Message> {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let is_size = |line: &&str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        let body: String = body.split("\r\n").filter(|line| !is_size(line)).collect();
        let field = |block: &str, name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
        };
        let whole = body.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        whole
            .split("\n\n")
            .filter_map(|block| {
                let data = serde_json::from_str(&field(block, "data")?).unwrap();
                Some((field(block, "id"), field(block, "event")?, data))
            })
            .collect()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.messages().iter().filter_map(|(_, _, data)| data["data"]["number"].as_u64()).collect()
    }

    pub(super) async fn end(&mut self) -> String {
        self.until("its end", |follower| follower.messages().iter().any(|(_, name, _)| name == "end")).await;
        let (_, _, data) = self.messages().pop().unwrap();
        data["reason"].as_str().unwrap().to_owned()
    }
}

pub(crate) async fn write(client: &Client, numbers: std::ops::Range<u64>) {
    for number in numbers {
        client
            .execute(
                "INSERT INTO events (tenant_id, event_type, payload)
                 SELECT id, 'job_updated', jsonb_build_object('number', $1::bigint) FROM tenants WHERE slug = 'default'",
                &[&i64::try_from(number).unwrap()],
            )
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_sends_events_and_resumes_after_disconnect() {
    let mut app = TestApp::start().await;
    let client = app.fixture.client().await;
    let mut first = Follower::of(&app, "").await;
    assert_eq!(first.messages()[0].1, "open");
    write(&client, 0..3).await;
    first.until("three events", |follower| follower.numbers().len() == 3).await;
    assert_eq!(first.numbers(), [0, 1, 2]);
    let (_, name, data) = first.messages()[1].clone();
    assert_eq!(
        (name.as_str(), &data["type"], &data["is_installation"]),
        ("job_updated", &json!("job_updated"), &json!(false))
    );
    let (opened, seen) = (first.messages()[0].0.clone().unwrap(), first.messages()[2].0.clone().unwrap());
    assert_eq!(data["id"].as_str(), first.messages()[1].0.as_deref());
    drop(first);

    write(&client, 3..5).await;
    app.restart_with_keys(&["test"]).await;
    write(&client, 5..6).await;
    let mut again = Follower::open(&app, bearer(), "", &format!("last-event-id: {seen}\r\n")).await;
    again.until("the rest", |follower| follower.numbers().len() == 4).await;
    write(&client, 6..7).await;
    again.until("what is new", |follower| follower.numbers().len() == 5).await;
    assert_eq!(again.numbers(), [2, 3, 4, 5, 6]);
    let mut whole = Follower::of(&app, &format!("?after={opened}")).await;
    whole.until("all of it", |follower| follower.numbers().len() == 7).await;
    assert_eq!(whole.numbers(), [0, 1, 2, 3, 4, 5, 6]);

    let page = app.get("/api/v1/events?type=job_updated&limit=4").await.json();
    let numbers = |page: &Value| -> Vec<u64> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["data"]["number"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(numbers(&page), [6, 5, 4, 3], "newest first");
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = app.get(&format!("/api/v1/events?type=job_updated&limit=4&cursor={cursor}")).await.json();
    assert_eq!((numbers(&rest), &rest["next_cursor"]), (vec![2, 1, 0], &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_see_all_events_in_one_order() {
    const CLIENTS: usize = 50;
    const WRITERS: u64 = 6;
    const EACH: u64 = 50;
    let app = TestApp::start().await;
    let mut followers = join_all((0..CLIENTS).map(|_| Follower::of(&app, "?type=job_updated"))).await;
    let clients = join_all((0..WRITERS).map(|_| app.fixture.client())).await;
    let writing =
        clients.iter().zip(0..).map(|(client, writer)| write(client, writer * EACH..(writer + 1) * EACH));
    // Later transactions overtake this writer's transactions.
    let (slow, overtaker) = (app.fixture.client().await, app.fixture.client().await);
    let overtaken = async {
        for number in (0..20_u64).step_by(2).map(|number| WRITERS * EACH + number) {
            slow.batch_execute("BEGIN").await.unwrap();
            write(&slow, number..number + 1).await;
            write(&overtaker, number + 1..number + 2).await;
            slow.batch_execute("COMMIT").await.unwrap();
        }
    };
    let total = usize::try_from(WRITERS * EACH + 20).unwrap();
    tokio::join!(join_all(writing), overtaken);
    let mut order: Option<Vec<u64>> = None;
    for follower in &mut followers {
        follower.until("every event", |follower| follower.numbers().len() >= total).await;
        let numbers = follower.numbers();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), total);
        assert_eq!(numbers.len(), total, "each once");
        assert_eq!(order.get_or_insert_with(|| numbers.clone()), &numbers, "all in the same order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_does_not_read_is_disconnected() {
    let app = TestApp::start_with(&[("API_STREAM_PATIENCE", "4s")]).await;
    let client = app.fixture.client().await;
    // Never reads; a small window fills soon.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut lazy = socket.connect(app.addr).await.unwrap();
    let request = format!(
        "GET /api/v1/events/stream HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\n\r\n",
        app.addr,
        bearer()
    );
    lazy.write_all(request.as_bytes()).await.unwrap();
    let mut eager = Follower::of(&app, "").await;
    let streams = async || app.get("/status").await.json()["status"]["event_streams"].as_u64().unwrap();
    wait_for("both streams are open", LIMIT, async || match streams().await {
        2 => Ok(()),
        other => Err(format!("{other}")),
    })
    .await;
    // More than all buffers between API and client hold.
    client
        .execute(
            "INSERT INTO events (tenant_id, event_type, payload)
             SELECT t.id, 'job_updated', jsonb_build_object('number', n, 'filler', repeat('x', 4000))
             FROM tenants t, generate_series(1, 2000) AS n WHERE t.slug = 'default'",
            &[],
        )
        .await
        .unwrap();
    eager.until("everything", |follower| follower.text.matches("\"number\":").count() >= 2000).await;
    wait_for("the lazy one has lost its place", LIMIT, async || match streams().await {
        1 => Ok(()),
        other => Err(format!("{other}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_filters_apply_within_the_tenant() {
    let app = TestApp::start().await;
    app.with_jobs(&["a", "b"]).await;
    let client = app.fixture.client().await;
    client.batch_execute("INSERT INTO tenants (slug, name) VALUES ('other', 'Other')").await.unwrap();
    let foreign = member(&app, "them@example.com", "other", "owner").await;
    let viewer = member(&app, "viewer@example.com", "default", "viewer").await;
    let mut of_a = Follower::of(&app, "?job=a&type=job_paused,job_resumed").await;
    let mut theirs = Follower::open(&app, &foreign, "", "").await;
    let mut ours = Follower::open(&app, &viewer, "", "").await;
    theirs.until("open", |follower| follower.messages().len() == 1).await;
    ours.until("open", |follower| follower.messages().len() == 1).await;
    for path in ["jobs/b/pause", "jobs/a/pause", "jobs/a/disable", "jobs/a/resume"] {
        assert_eq!(app.send(Request::post(&format!("/api/v1/{path}"))).await.status, 200, "{path}");
    }
    client
        .batch_execute(
            "INSERT INTO events (event_type) VALUES ('worker_online');
             INSERT INTO events (tenant_id, event_type) SELECT id, 'queue_created' FROM tenants WHERE slug = 'other'",
        )
        .await
        .unwrap();
    of_a.until("both", |follower| follower.messages().len() >= 3).await;
    theirs.until("theirs", |follower| follower.messages().len() >= 2).await;
    write(&client, 1..2).await;
    ours.until("the last of ours", |follower| follower.numbers() == [1]).await;
    let names = |follower: &Follower| -> Vec<String> {
        follower.messages().into_iter().map(|(_, name, _)| name).filter(|name| name != "open").collect()
    };
    assert_eq!(names(&of_a), ["job_paused", "job_resumed"]);
    assert_eq!(names(&theirs), ["queue_created"]);
    assert!(
        !names(&ours).iter().any(|name| name == "worker_online" || name == "queue_created"),
        "{}",
        ours.text
    );

    let owner = app.get("/api/v1/events?type=worker_online").await.json();
    assert_eq!(owner["items"][0]["is_installation"], true, "an operator sees the events of the installation");
    let listed =
        app.send(Request::get("/api/v1/events").headers(&[("authorization", foreign.as_str())])).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    for (path, status) in [
        ("events?type=nonsense", 400),
        ("events?cursor=nonsense", 400),
        ("events/stream?after=nonsense", 400),
        ("events/stream?job=nobody", 404),
        ("events?project=nowhere", 404),
    ] {
        assert_eq!(app.get(&format!("/api/v1/{path}")).await.status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn project_filter_limits_events() {
    let app = TestApp::start().await;
    for project in ["p", "q"] {
        let headers = [("content-type", "application/json")];
        let made =
            app.send(Request::put(&format!("/api/v1/projects/{project}")).headers(&headers).body("{}")).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    let job = |name: &str, project: &str| {
        let mut job = manual(name);
        job["project"] = json!(project);
        job
    };
    let jobs = [job("one", "p"), job("two", "q"), manual("three")];
    app.apply(&json!({"task_functions": [function("f")], "jobs": jobs})).await;
    let mut follower = Follower::of(&app, "?project=p").await;
    for name in ["two", "three", "one"] {
        let paused = app.post(&format!("/api/v1/jobs/{name}/pause"), &json!({})).await;
        assert_eq!(paused.status, 200, "{}", paused.body);
    }
    let id = app.get("/api/v1/jobs/one").await.json()["id"].clone();
    let is_paused = |message: &Message| message.1 == "job_paused";
    follower.until("the pause", |follower| follower.messages().iter().any(is_paused)).await;
    // The stream may begin with the creation of the job, while older transactions are open.
    let is_foreign = |message: &&Message| match (&message.2["job_id"], &message.2["data"]) {
        (Value::Null, Value::Null) => false,
        (Value::Null, data) => data["name"] != "p",
        (job, _) => *job != id,
    };
    assert_eq!(follower.messages()[1..].iter().find(is_foreign), None);
    let listed = app.get("/api/v1/events?project=p").await.json();
    let types: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["job_paused", "job_created", "project_created"], "{listed}");
    let ours =
        |event: &Value| event["job_id"] == id || (event["job_id"].is_null() && event["data"]["name"] == "p");
    assert!(listed["items"].as_array().unwrap().iter().all(ours), "{listed}");
    let none = app.get("/api/v1/events?project=p&job=two").await.json();
    assert_eq!(none["items"], json!([]), "both filters hold");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_stream_ends_on_revocation_and_stop() {
    let app = TestApp::start().await;
    let (key, made) = make_key(&app, bearer(), &json!({"name": "follows"})).await;
    let mut revoked = Follower::open(&app, &key, "", "").await;
    let mut stopped = Follower::of(&app, "").await;
    revoked.until("open", |follower| follower.messages().len() == 1).await;
    let path = format!("/api/v1/api-keys/{}", made["id"].as_str().unwrap());
    assert_eq!(app.send(Request::delete(&path)).await.status, 204);
    assert_eq!(revoked.end().await, "revoked");
    app.ask_to_stop();
    assert_eq!(stopped.end().await, "stopping");
    app.ended().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_has_a_limited_share_of_streams() {
    let app = TestApp::start().await;
    let other = member(&app, "other@example.com", "default", "viewer").await;
    let mut held = Vec::new();
    loop {
        let follower = Follower::open(&app, bearer(), "", "").await;
        if follower.status() == "429" {
            assert!(follower.text.to_lowercase().contains("retry-after"), "{}", follower.text);
            break;
        }
        assert_eq!(follower.status(), "200", "{}", follower.text);
        held.push(follower);
        assert!(held.len() <= 1000, "no bound");
    }
    assert_eq!(Follower::open(&app, &other, "", "").await.status(), "200", "others still find one");
    drop(held);
    wait_for("there is room", LIMIT, async || match Follower::open(&app, bearer(), "", "").await.status() {
        "200" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await;
}

#[test]
fn wire_event_types_equal_written_types() {
    use sched_model::events::append;
    let _shape: fn(&Event) -> &str = |event| &event.event_type;
    for written in append::TYPES {
        assert!(sched_wire::EventType::WORDS.contains(written), "{written}");
    }
    let documented = include_str!("../../../../../docs/reference/events.md");
    for word in sched_wire::EventType::WORDS {
        assert!(documented.contains(&format!("`{word}`")), "{word} is not in docs/reference/events.md");
    }
}
