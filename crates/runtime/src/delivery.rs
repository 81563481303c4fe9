//! Delivery of documents to a server that may be unavailable, and that no other part waits for.
//!
//! The sender keeps an undelivered document, waits for [`Delivery::pause`], and sends it again. The
//! server will never accept a rejected document. Unavailability and rejection are logged when they
//! begin and when they end, and not in between.

use std::future::Future;
use std::time::Duration;

use prost::bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url, redirect};

use tokio_util::sync::CancellationToken;

use crate::exit;
use crate::tasks::{OwnedTask, spawn_owned};

/// Time limit for sending the remaining documents after the daemon has stopped.
pub(crate) const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// Request timeout: OpenTelemetry's default.
const WITHIN: Duration = Duration::from_secs(10);
/// Shortest and longest wait before a retry while the server is unavailable.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Limit of a response body, in bytes.
const LONGEST: usize = 64 * 1024;
/// Limit of a server's own text in the log, in bytes.
const LONGEST_CAUSE: usize = 200;

/// A client of one server.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The name of the server in the log.
    to: &'static str,
    http: Client,
    url: Url,
    headers: HeaderMap,
    standing: Standing,
    pause: Duration,
}

/// The result of the last delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Taken,
    Away,
    Refused,
}

/// Why the server did not accept a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server may accept it later.
    Away,
    /// The server will never accept it.
    Refused,
}

impl Delivery {
    /// Does not connect yet.
    pub(crate) fn new(to: &'static str, url: Url, headers: HeaderMap) -> Result<Self, reqwest::Error> {
        // Fails only when a provider is installed already, which is sufficient.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .user_agent(concat!("sched/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .timeout(WITHIN);
        if url.scheme() == "http" {
            // The server is local: certificates are not loaded, and the proxies to the outside are
            // not used.
            http = http.tls_certs_only([]).no_proxy();
        }
        Ok(Self { to, http: http.build()?, url, headers, standing: Standing::Taken, pause: PAUSES.0 })
    }

    /// Delivers one document and returns the response. The caller decides from it whether the
    /// server accepted the document ([`Self::takes`], [`Self::refuses`]).
    pub(crate) async fn post(&mut self, body: Bytes) -> Result<Vec<u8>, Failure> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let answered = async {
            let response = request.send().await?;
            Ok((response.status().as_u16(), read(response).await?))
        };
        match answered.await {
            Ok((200..=299, answer)) => {
                self.pause = PAUSES.0;
                Ok(answer)
            }
            Ok((status @ (408 | 429 | 502..=504), _)) => {
                Err(self.is_away(&format!("it answers with status {status}")))
            }
            Ok((status, _)) => {
                self.refuses(&format!("it answers with status {status}"));
                Err(Failure::Refused)
            }
            // The address may contain a password.
            Err(error) => Err(self.is_away(&exit::describe(&reqwest::Error::without_url(error)))),
        }
    }

    /// Waits before the next retry, longer each time.
    pub(crate) async fn pause(&self) {
        tokio::time::sleep(self.pause).await;
    }

    /// Records that the server accepted the document.
    pub(crate) fn takes(&mut self) {
        self.stands(Standing::Taken, "");
    }

    /// Records that the server rejected the document. `cause` may be the server's own text.
    pub(crate) fn refuses(&mut self, cause: &str) {
        self.stands(
            Standing::Refused,
            cause.get(..cause.floor_char_boundary(LONGEST_CAUSE)).unwrap_or_default(),
        );
    }

    fn is_away(&mut self, cause: &str) -> Failure {
        if self.standing == Standing::Away {
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        self.stands(Standing::Away, cause);
        Failure::Away
    }

    /// Logs a change of the state once.
    fn stands(&mut self, standing: Standing, cause: &str) {
        if self.standing == standing {
            return;
        }
        self.standing = standing;
        let to = self.to;
        match standing {
            Standing::Taken => tracing::info!("The {to} takes what it is sent again."),
            Standing::Away => {
                tracing::warn!(
                    error = cause,
                    "The {to} cannot be reached; what is for it is kept, up to a limit."
                );
            }
            Standing::Refused => {
                tracing::warn!(error = cause, "The {to} refuses what it is sent, which is dropped.");
            }
        }
    }
}

/// A task that sends while the daemon runs.
#[derive(Debug)]
pub(crate) struct Sending {
    task: OwnedTask<()>,
    stop: CancellationToken,
}

impl Sending {
    /// Spawns the task on the current runtime, which is required. `run` ends soon after its token
    /// is cancelled.
    pub(crate) fn start<F>(name: &'static str, run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        Self { task: spawn_owned(name, run(stop.clone())), stop }
    }

    /// Sends the remaining documents, for [`FLUSH_WITHIN`] at most, or until `hard` is cancelled.
    pub(crate) async fn finish(self, hard: &CancellationToken) {
        self.stop.cancel();
        let ended = tokio::select! {
            biased;
            () = hard.cancelled() => return,
            ended = tokio::time::timeout(FLUSH_WITHIN, self.task) => ended,
        };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "What was left could not be sent.");
            }
            Err(_elapsed) => {
                tracing::warn!("What was left was not taken in time by the server that it was for.")
            }
        }
    }
}

/// The beginning of a response body: a longer one cannot be a valid response.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < LONGEST
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
