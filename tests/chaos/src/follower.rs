//! A client that follows the event stream across restarts of the API, and logs the events.
//!
//! A message counts once it is complete. After every end of a connection the client connects to the
//! next API and continues after the last id. It does not query the database, so its log can be
//! compared with the database.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use test_support::{Client, identity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::timeline::{Lines, now};

/// Read timeout. An API sends a keep-alive every 15 seconds, so a silent API is down.
const SILENCE: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(300);
/// Time limit for the remaining events after the end of the load.
const LIMIT: Duration = Duration::from_secs(60);

/// The position of the newest visible event.
const NEWEST: &str = "SELECT transaction_id::text::bigint, id FROM event_stream
    WHERE tenant_id IS NULL OR tenant_id = (SELECT id FROM tenants WHERE slug = 'default') ORDER BY transaction_id DESC, id DESC LIMIT 1";

/// The transaction of an event, and the number of the event within it.
type EventPosition = (i64, i64);

#[derive(Debug)]
pub(crate) struct Follower {
    lines: Arc<Lines>,
    position: watch::Receiver<EventPosition>,
    _following: JoinSet<()>,
}

impl Follower {
    /// Returns when the stream is open.
    pub(crate) async fn start(apis: Vec<SocketAddr>, lines: Arc<Lines>) -> anyhow::Result<Self> {
        let (position, mut is_open) = watch::channel((0, 0));
        let mut following = JoinSet::new();
        following.spawn(follow(apis, Arc::clone(&lines), position));
        timeout(LIMIT, is_open.changed()).await.context("the event stream does not open")??;
        Ok(Self { lines, position: is_open, _following: following })
    }

    /// Waits until the follower has received all events up to now, and stops it. Later events are
    /// missing.
    pub(crate) async fn stop(mut self, sql: &Client) -> anyhow::Result<()> {
        let newest = sql.query_one(NEWEST, &[]).await?;
        let newest: EventPosition = (newest.get(0), newest.get(1));
        if timeout(LIMIT, self.position.wait_for(|position| *position >= newest)).await.is_err() {
            println!(
                "the follower of events has come to {:?} of {newest:?} in {LIMIT:?}",
                *self.position.borrow()
            );
        }
        let (transaction, id) = newest;
        self.lines.add(
            &json!({"at": now(), "message": "until", "position": format!("0.{transaction:x}.{id:x}.0")}),
        );
        Ok(())
    }
}

/// Number of connections, and the id of the last complete message.
struct StreamState {
    connection: usize,
    last: Option<String>,
}

async fn follow(apis: Vec<SocketAddr>, lines: Arc<Lines>, position: watch::Sender<EventPosition>) {
    let mut state = StreamState { connection: 0, last: None };
    for api in apis.iter().cycle() {
        state.connection += 1;
        // The next connection continues at the same position.
        drop(read(*api, &mut state, &lines, &position).await);
        sleep(AGAIN).await;
    }
}

async fn read(
    api: SocketAddr,
    state: &mut StreamState,
    lines: &Lines,
    position: &watch::Sender<EventPosition>,
) -> anyhow::Result<()> {
    let mut stream = timeout(ANSWER, TcpStream::connect(api)).await??;
    let last = state.last.as_ref().map_or_else(String::new, |last| format!("last-event-id: {last}\r\n"));
    let request = format!(
        "GET /api/v1/events/stream HTTP/1.0\r\nhost: {api}\r\naccept: text/event-stream\r\nauthorization: {}\r\n{last}\r\n",
        identity::bearer()
    );
    stream.write_all(request.as_bytes()).await?;
    let (mut text, mut buffer, mut is_begun) = (Vec::new(), vec![0; 64 * 1024], false);
    loop {
        let length = timeout(if is_begun { SILENCE } else { ANSWER }, stream.read(&mut buffer)).await??;
        ensure!(length > 0, "the stream has ended");
        text.extend_from_slice(buffer.get(..length).unwrap_or_default());
        if !is_begun {
            let Some(head) = cut(&mut text, b"\r\n\r\n") else { continue };
            ensure!(
                head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.0 200"),
                "it is refused: {head}"
            );
            is_begun = true;
        }
        while let Some(message) = cut(&mut text, b"\n\n") {
            process_message(&message, state, lines);
            if let Some(place) = state.last.as_deref().and_then(place_of) {
                position.send_replace(place);
            }
        }
    }
}

/// Removes and returns the text before a mark.
fn cut(text: &mut Vec<u8>, mark: &[u8]) -> Option<String> {
    let at = text.windows(mark.len()).position(|window| window == mark)?;
    let rest = text.split_off(at + mark.len());
    let piece = std::mem::replace(text, rest);
    Some(String::from_utf8_lossy(piece.get(..at).unwrap_or_default()).into_owned())
}

fn process_message(message: &str, state: &mut StreamState, lines: &Lines) {
    let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if let Some(id) = field("id") {
        state.last = Some(id.to_owned());
    }
    // Keep-alives have no data.
    let Some(data) = field("data").and_then(|data| serde_json::from_str::<Value>(data).ok()) else { return };
    lines.add(&json!({"at": now(), "connection": state.connection, "message": data["message"], "position": data["id"], "event_type": data["type"],
                     "reason": data["reason"]}));
}

/// Four or five hexadecimal numbers, of which the second and the third are the position.
fn place_of(position: &str) -> Option<EventPosition> {
    let mut parts = position.split('.').skip(1).map(|part| i64::from_str_radix(part, 16));
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_messages_are_read() {
        let mut text = b"id: 5a.1f.2.0\nevent: open\ndata: {}\n\nid: 5a.2".to_vec();
        let message = cut(&mut text, b"\n\n").unwrap();
        assert_eq!(
            (message.lines().next(), text.as_slice()),
            (Some("id: 5a.1f.2.0"), b"id: 5a.2".as_slice())
        );
        assert_eq!(cut(&mut text, b"\n\n"), None);
        assert_eq!((place_of("5a.1f.2.0"), place_of("nothing")), (Some((31, 2)), None));
    }
}
