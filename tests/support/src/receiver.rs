//! A server that accepts and keeps every request: a test double for trace collectors and error
//! trackers.
//!
//! It answers 200 with an empty body, one request per connection.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// The request line and the headers, in lower case.
    pub head: String,
    pub body: Vec<u8>,
}

/// The server. It ends when this is dropped.
#[derive(Debug)]
pub struct Receiver {
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
    _serves: JoinSet<()>,
}

impl Receiver {
    /// Starts a receiver on a port of loopback; 0 selects a free one.
    ///
    /// # Errors
    ///
    /// When the port is in use.
    pub async fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?.to_string();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (into, mut serves) = (received.clone(), JoinSet::new());
        serves.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that disconnects in the middle of a request has sent nothing.
                drop(take(stream, &into).await);
            }
        });
        Ok(Self { address, received, _serves: serves })
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The requests so far.
    pub fn received(&self) -> MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a request before it answers, so that a client with a response finds the request kept.
async fn take(mut stream: TcpStream, into: &Mutex<Vec<Received>>) -> io::Result<()> {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await? > 0 {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let (head, body) = bytes.split_at(end + 4);
        let head = String::from_utf8_lossy(head).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
            let one = Received { head, body: body.to_vec() };
            into.lock().unwrap_or_else(PoisonError::into_inner).push(one);
            return stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_sent_is_kept() {
        let receiver = Receiver::start(0).await.unwrap();
        let to = receiver.address().parse().unwrap();
        let sent = serde_json::json!({"text": "x".repeat(100_000)});
        assert_eq!(crate::http::post(to, "/a", &sent).await.unwrap().status, 200);
        assert_eq!(crate::http::get(to, "/b").await.unwrap().status, 200);
        let [first, second] = &receiver.received()[..] else { panic!("{receiver:?}") };
        assert!(first.head.starts_with("post /a ") && second.head.starts_with("get /b "));
        assert_eq!(first.body, sent.to_string().into_bytes());
    }
}
