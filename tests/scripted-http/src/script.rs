use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::{Request, Response};

/// One step of the server. The server closes the connection after the last step, unless
/// [`Step::Next`] is among them.
#[derive(Clone, Debug)]
pub enum Step {
    Send(Vec<u8>),
    Flood(Vec<u8>),
    /// Sends these bytes repeatedly, with a pause after each time.
    Drip(Vec<u8>, Duration),
    Hang,
    Reset,
    /// Reads the next request on the same connection after the last step.
    Next,
}

impl Step {
    pub fn send(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Send(bytes.into())
    }
}

/// A client that reuses connections needs [`Step::Next`] or the header `Connection: close`.
impl From<Response> for Step {
    fn from(response: Response) -> Self {
        Self::Send(response.bytes())
    }
}

pub trait Script: Send + Sync + 'static {
    fn steps(&self, request: &Request) -> Vec<Step>;
}

/// The closure needs the type of its parameter: `|request: &Request|`.
impl<F: Fn(&Request) -> Vec<Step> + Send + Sync + 'static> Script for F {
    fn steps(&self, request: &Request) -> Vec<Step> {
        self(request)
    }
}

impl Script for Vec<Step> {
    fn steps(&self, _request: &Request) -> Vec<Step> {
        self.clone()
    }
}

impl<const N: usize> Script for [Step; N] {
    fn steps(&self, _request: &Request) -> Vec<Step> {
        self.to_vec()
    }
}

/// The same response for each request, with `Connection: close`.
impl Script for Response {
    fn steps(&self, _request: &Request) -> Vec<Step> {
        vec![self.clone().header("Connection", "close").into()]
    }
}

/// One response after the other; the last one repeats.
///
/// # Panics
///
/// If there is no response.
pub fn sequence(responses: impl IntoIterator<Item = Response>) -> impl Script {
    let responses: Vec<Response> = responses.into_iter().collect();
    assert!(!responses.is_empty(), "a sequence needs a response");
    let number = AtomicUsize::new(0);
    move |request: &Request| {
        let response = responses.get(number.fetch_add(1, Ordering::SeqCst)).or(responses.last());
        response.map(|response| response.steps(request)).unwrap_or_default()
    }
}
