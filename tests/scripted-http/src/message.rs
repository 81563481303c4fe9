use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub version: String,
    /// In the order of the request.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first value of a header, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// # Panics
    ///
    /// If the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("the body of {} {} is not JSON ({error}): {}", self.method, self.path, self.text())
        })
    }

    pub(crate) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        let (method, path, version) = (word(), word(), word());
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        let headers = lines.filter_map(header).collect();
        let mut request = Self { method, path, version, headers, body: Vec::new() };
        if let Some(length) = request.header("content-length") {
            let length = length.parse().map_err(io::Error::other)?;
            request.body = vec![0; length];
            stream.read_exact(&mut request.body).await?;
        }
        Ok(request)
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} \r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}
