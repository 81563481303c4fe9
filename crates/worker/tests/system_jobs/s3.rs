//! A minimal S3 server for archives: it stores and returns objects, without authentication.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use sched_runtime::tasks::{OwnedTask, spawn_owned};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Objects by path, which begins with the bucket.
type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// A server that stores objects in memory.
pub(crate) struct S3 {
    pub(crate) addr: SocketAddr,
    objects: Objects,
    _server: OwnedTask<()>,
}

impl S3 {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, objects) = (listener.local_addr().unwrap(), Objects::default());
        let kept = objects.clone();
        let server = spawn_owned("s3", async move {
            let mut connections = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.push(spawn_owned("s3 connection", serve(stream, kept.clone())));
            }
        });
        Self { addr, objects, _server: server }
    }

    /// The sorted paths of all objects.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.objects.lock().unwrap().keys().cloned().collect();
        paths.sort();
        paths
    }

    pub(crate) fn object(&self, path: &str) -> Vec<u8> {
        self.objects.lock().unwrap()[path].clone()
    }
}

/// Answers the requests of one connection until it ends.
async fn serve(stream: TcpStream, objects: Objects) {
    let mut stream = BufReader::new(stream);
    while let Some((method, path, body)) = request(&mut stream).await {
        let head = "etag: \"1\"\r\nlast-modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n";
        let answer = match method.as_str() {
            "PUT" => {
                objects.lock().unwrap().insert(path, body);
                format!("HTTP/1.1 200 OK\r\n{head}content-length: 0\r\n\r\n").into_bytes()
            }
            _ => match objects.lock().unwrap().get(&path) {
                Some(object) => {
                    let length = object.len();
                    let mut answer =
                        format!("HTTP/1.1 200 OK\r\n{head}content-length: {length}\r\n\r\n").into_bytes();
                    answer.extend(object);
                    answer
                }
                None => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
            },
        };
        if stream.get_mut().write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// Method, path and body of the next request.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|count| *count > 0)?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((method, path, body))
}
