//! A small HTTP client for loopback: one request per connection.
//!
//! HTTP/1.0 prevents chunked responses. The default API key is that of [`crate::identity`].

use std::{io, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// The value of a header, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// # Panics
    ///
    /// If the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| {
            panic!("the body of this {} is no JSON ({error}): {}", self.status, self.body)
        })
    }
}

/// # Errors
///
/// If there is no response; any status is a success.
pub async fn get(server: SocketAddr, path: &str) -> io::Result<Answer> {
    request(server, Request::get(path)).await
}

/// # Errors
///
/// If there is no response; any status is a success.
pub async fn post(server: SocketAddr, path: &str, body: &Value) -> io::Result<Answer> {
    request(server, Request::post(path, body)).await
}

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: Option<&'a Value>,
}

impl<'a> Request<'a> {
    #[must_use]
    pub const fn get(path: &'a str) -> Self {
        Self { method: "GET", path, headers: &[], body: None }
    }

    #[must_use]
    pub const fn post(path: &'a str, body: &'a Value) -> Self {
        Self { method: "POST", path, headers: &[], body: Some(body) }
    }

    #[must_use]
    pub const fn with_headers(self, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { headers, ..self }
    }
}

/// # Errors
///
/// If there is no response; any status is a success.
pub async fn request(server: SocketAddr, request: Request<'_>) -> io::Result<Answer> {
    let Request { method, path, headers, body } = request;
    let mut text = format!("{method} {path} HTTP/1.0\r\nhost: {server}\r\naccept: application/json\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if path.starts_with("/api/")
        && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    {
        text.push_str(&format!("authorization: {}\r\n", crate::identity::bearer()));
    }
    let body = body.map(Value::to_string).unwrap_or_default();
    if !body.is_empty() {
        text.push_str("content-type: application/json\r\n");
    }
    // HTTP/1.0 requires a content length if a request may have a body.
    if !body.is_empty() || !["GET", "HEAD", "DELETE"].contains(&method) {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(&body);
    let bytes = tokio::time::timeout(LIMIT, exchange(server, &text)).await??;
    parse(&bytes)
        .ok_or_else(|| io::Error::other(format!("no HTTP answer: {}", String::from_utf8_lossy(&bytes))))
}

async fn exchange(server: SocketAddr, text: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(text.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let header =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Some(Answer { status, headers: lines.filter_map(header).collect(), body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use scripted_http::{Response, Server};

    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let answer =
            parse(b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\n{\"a\": 1}\r\n\r\n").unwrap();
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("text/plain")));
        assert_eq!(answer.json()["a"], 1);
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
    }

    #[tokio::test]
    async fn a_request_that_may_have_a_body_says_how_long_it_is_also_without_one() {
        for (method, body, says) in [
            ("POST", None, Some("0")),
            ("PUT", Some(serde_json::json!({})), Some("2")),
            ("GET", None, None),
            ("DELETE", Some(serde_json::json!({})), Some("2")),
        ] {
            let server = Server::start(Response::new(200));
            let sent = Request { method, path: "/", headers: &[], body: body.as_ref() };
            let answer = request(server.address(), sent).await.unwrap();
            assert_eq!(answer.status, 200);
            assert_eq!(server.requests()[0].header("content-length"), says, "{method}");
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_an_error_and_not_a_status() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(get(address, "/").await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
