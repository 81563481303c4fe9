//! Events over a WebSocket.

use serde_json::{Value, json};
use test_support::identity::{api_key, bearer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::operations::events::write;
use crate::support::{LIMIT, Request, TestApp};

pub(crate) struct Socket {
    stream: TcpStream,
    bytes: Vec<u8>,
}

type Frame = (u8, Vec<u8>);

impl Socket {
    pub(crate) async fn open(app: &TestApp, query: &str, headers: &str) -> Result<(Self, String), String> {
        let mut stream = TcpStream::connect(app.addr).await.unwrap();
        let request = format!(
            "GET /ws/events{query} HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n",
            app.addr
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut socket = Self { stream, bytes: Vec::new() };
        let end = loop {
            if let Some(end) = socket.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            socket.more().await;
        };
        let head = String::from_utf8_lossy(&socket.bytes[..end]).into_owned();
        socket.bytes.drain(..end);
        if head.starts_with("HTTP/1.1 101") { Ok((socket, head)) } else { Err(head) }
    }

    async fn more(&mut self) {
        let mut buffer = [0; 4096];
        let read = tokio::time::timeout(LIMIT, self.stream.read(&mut buffer)).await;
        let count = read.unwrap_or_else(|_| panic!("nothing comes")).unwrap();
        assert!(count > 0, "the connection ended: {:?}", String::from_utf8_lossy(&self.bytes));
        self.bytes.extend_from_slice(&buffer[..count]);
    }

    async fn frame(&mut self) -> Frame {
        loop {
            let short = self.bytes.get(1).map(|byte| usize::from(byte & 0x7f));
            let (head, length) = match (short, self.bytes.get(2..4)) {
                (Some(126), Some(two)) => (4, usize::from(u16::from_be_bytes([two[0], two[1]]))),
                (Some(short), _) if short < 126 => (2, short),
                _ => (usize::MAX / 2, 0),
            };
            if self.bytes.len() >= head + length {
                let frame: Vec<u8> = self.bytes.drain(..head + length).collect();
                return (frame[0] & 0x0f, frame[head..].to_vec());
            }
            self.more().await;
        }
    }

    pub(crate) async fn message(&mut self) -> Value {
        loop {
            if let (1, text) = self.frame().await {
                return serde_json::from_slice(&text).unwrap();
            }
        }
    }

    async fn send(&mut self, opcode: u8, content: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | opcode, 0x80 | u8::try_from(content.len()).unwrap()];
        frame.extend_from_slice(&mask);
        frame.extend(content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.stream.write_all(&frame).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn web_socket_sends_events_and_accepts_subprotocol_key() {
    let app = TestApp::start().await;
    let client = app.fixture.client().await;
    let authorization = format!("authorization: {}\r\n", bearer());
    let (mut socket, _) = Socket::open(&app, "?type=job_updated", &authorization).await.unwrap();
    let opened = socket.message().await;
    assert_eq!(opened["message"], "open");
    write(&client, 1..3).await;
    let (one, two) = (socket.message().await, socket.message().await);
    assert_eq!(
        (&one["message"], &one["type"], &one["data"]["number"]),
        (&json!("event"), &json!("job_updated"), &json!(1))
    );
    assert_eq!(two["data"]["number"], 2);
    socket.send(9, b"hello").await;
    loop {
        let (opcode, content) = socket.frame().await;
        if opcode == 10 {
            assert_eq!(content, b"hello");
            break;
        }
    }

    let protocols = format!("sec-websocket-protocol: sched.events.v1, sched.bearer.{}\r\n", api_key());
    let after = format!("?type=job_updated&after={}", one["id"].as_str().unwrap());
    let (mut again, head) = Socket::open(&app, &after, &protocols).await.unwrap();
    let answered = head.to_lowercase();
    assert!(answered.contains("sec-websocket-protocol: sched.events.v1\r\n"), "{head}");
    assert!(!head.contains(api_key()), "the key is not sent back");
    assert_eq!(again.message().await["message"], "open");
    assert_eq!(again.message().await, two, "the ids are the same everywhere");

    for (headers, status) in [("", "401"), ("authorization: Bearer sched_live_x_y\r\n", "401")] {
        let refused = Socket::open(&app, "", headers).await.err().unwrap();
        assert!(refused.starts_with(&format!("HTTP/1.1 {status}")), "{refused}");
    }
    let plain = app.send(Request::get("/ws/events").headers(&[("authorization", bearer())])).await;
    assert_eq!(
        (plain.status, plain.json()["code"].as_str()),
        (426, Some("upgrade_required")),
        "{}",
        plain.body
    );
    app.ask_to_stop();
    loop {
        let message = again.message().await;
        if message["message"] == "end" {
            assert_eq!(message["reason"], "stopping");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn web_socket_reads_client_messages_within_a_limit() {
    let app = TestApp::start().await;
    let client = app.fixture.client().await;
    client
        .batch_execute(
            "INSERT INTO events (tenant_id, event_type, payload)
             SELECT t.id, 'job_updated', jsonb_build_object('number', n) FROM tenants t, generate_series(1, 1000) AS n WHERE t.slug = 'default'",
        )
        .await
        .unwrap();
    let authorization = format!("authorization: {}\r\n", bearer());
    let (mut socket, _) = Socket::open(&app, "?type=job_updated&since=-1h", &authorization).await.unwrap();
    for _ in 0..50 {
        socket.send(9, b"x").await;
    }
    let (mut numbers, mut pongs) = (Vec::new(), 0);
    while numbers.len() < 1000 || pongs < 50 {
        match socket.frame().await {
            (1, text) => {
                let message: Value = serde_json::from_slice(&text).unwrap();
                numbers.extend(message["data"]["number"].as_u64());
            }
            (10, _) => pongs += 1,
            _ => {}
        }
    }
    assert_eq!(numbers, (1..=1000).collect::<Vec<_>>(), "each once and in order");
    loop {
        socket.send(9, b"x").await;
        if let (8, content) = socket.frame().await {
            assert_eq!(content.get(..2), Some(&1008_u16.to_be_bytes()[..]), "for reasons of policy");
            break;
        }
    }
}
