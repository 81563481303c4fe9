//! A scripted HTTP server for tests: it records each request and executes the steps of its script.
//!
//! A script is one [`Response`], a [`sequence`] of responses, a list of [`Step`]s, or a closure
//! that chooses the steps for a [`Request`]. The server has its own thread, for tests with and
//! without an async runtime. It serves connections concurrently and ends when it is dropped.
//!
//! Limits: HTTP/1 without TLS, and only bodies with a `Content-Length`. A connection ends without a
//! response if a request is incomplete or if the script panics.
//!
//! ```
//! use scripted_http::{Request, Response, Server, Step, sequence};
//!
//! let busy_once = Server::start(sequence([503, 200].map(Response::new)));
//! let silent = Server::start([Step::Hang]);
//! let store = Server::start(|request: &Request| match request.method.as_str() {
//!     "GET" => vec![Response::new(200).body("stored").into(), Step::Next],
//!     _ => vec![Response::new(405).into()],
//! });
//! println!("{} {} {}", busy_once.url("/hook"), silent.address(), store.requests().len());
//! ```

mod message;
mod script;
mod server;
#[cfg(test)]
mod tests;

pub use message::{Request, Response};
pub use script::{Script, Step, sequence};
pub use server::Server;
