//! A server for tests of delivery: it keeps the requests and answers with given responses.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::tasks::{OwnedTask, spawn_owned};

/// The head of a request, in lower case, and its body.
pub(crate) type Taken = (String, Vec<u8>);

/// Answers each request with the next given response, and all later requests with the last one.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) taken: Arc<Mutex<Vec<Taken>>>,
    _serves: OwnedTask<()>,
}

impl Server {
    pub(crate) async fn start(answers: Vec<(u16, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let taken: Arc<Mutex<Vec<_>>> = Arc::default();
        let into = taken.clone();
        let serves = spawn_owned("server", async move {
            for number in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = Vec::new();
                let one = loop {
                    stream.read_buf(&mut bytes).await.unwrap();
                    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let length: usize = length.unwrap().parse().unwrap();
                    if bytes.len() >= end + 4 + length {
                        break (head, bytes[end + 4..].to_vec());
                    }
                };
                into.lock().unwrap().push(one);
                let (status, answer) = &answers[number.min(answers.len() - 1)];
                let length = answer.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                stream.write_all(&[head.as_bytes(), answer].concat()).await.unwrap();
            }
        });
        Self { address, taken, _serves: serves }
    }
}
