//! A stream of server-sent events. An `id` without data moves the position, as the format defines.
//! The caller decides whether to reopen a broken stream.

use reqwest::Response;
use serde::de::DeserializeOwned;

/// The API sends shorter lines.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BrokenStream {
    #[error("the connection to the API broke")]
    Connection(#[source] reqwest::Error),
    #[error("the API sent an invalid event")]
    NoEvent(#[source] serde_json::Error),
    #[error("the API sent an event above the size limit")]
    TooLong,
}

#[derive(Debug)]
pub(crate) struct Events {
    response: Response,
    lines: Lines,
}

impl Events {
    pub(super) fn new(response: Response) -> Self {
        Self { response, lines: Lines::default() }
    }

    pub(crate) fn position(&self) -> Option<&str> {
        self.lines.position.as_deref()
    }

    /// `None` at the end of the stream.
    pub(crate) async fn next<T: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<(Option<String>, T)>, BrokenStream> {
        loop {
            if let Some((id, data)) = self.lines.next_event() {
                return Ok(Some((id, serde_json::from_str(&data).map_err(BrokenStream::NoEvent)?)));
            }
            match self.response.chunk().await.map_err(BrokenStream::Connection)? {
                Some(bytes) => self.lines.push(&bytes)?,
                None => return Ok(None),
            }
        }
    }
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    id: Option<String>,
    data: Option<String>,
    /// Id of the last complete block that had one.
    position: Option<String>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BrokenStream> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > LONGEST_LINE { Err(BrokenStream::TooLong) } else { Ok(()) }
    }

    fn next_event(&mut self) -> Option<(Option<String>, String)> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(':') {
                None if line.is_empty() => {
                    let id = self.id.take();
                    if id.is_some() {
                        self.position.clone_from(&id);
                    }
                    if let Some(data) = self.data.take() {
                        return Some((id, data));
                    }
                }
                Some(("id", value)) => self.id = Some(value.trim_start().to_owned()),
                Some(("data", value)) => self.data = Some(value.trim_start().to_owned()),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_wherever_the_stream_is_cut() {
        let stream = ": hello\n\nevent: output\nid: a.1.2.3\ndata: {\"x\": \"ü:\"}\n\nid: b\ndata: 2\r\n\r\n: nothing new\nid: c\n\nid: d"
            .as_bytes();
        for size in 1..=stream.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                lines.push(piece).unwrap();
                found.extend(std::iter::from_fn(|| lines.next_event()));
            }
            let event = |id: &str, data: &str| (Some(id.to_owned()), data.to_owned());
            assert_eq!(lines.position.as_deref(), Some("c"), "in pieces of {size}");
            assert_eq!(found, [event("a.1.2.3", "{\"x\": \"ü:\"}"), event("b", "2")], "in pieces of {size}");
        }
    }
}
