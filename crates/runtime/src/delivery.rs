//! Delivery of documents to a server that may be unavailable, without delaying other parts.
//!
//! The sender repeats an undelivered document after [`Delivery::pause`], but not a rejected one.
//! The log shows the begin and the end of unavailability and of rejection only.

use std::future::Future;
use std::time::Duration;

use prost::bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url, redirect};

use tokio_util::sync::CancellationToken;

use crate::exit;
use crate::tasks::{OwnedTask, spawn_owned};

/// Time limit for the remaining documents at the end of the daemon.
pub(crate) const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// Request timeout, as OpenTelemetry's default.
const WITHIN: Duration = Duration::from_secs(10);
/// Shortest and longest wait before a retry.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const LONGEST: usize = 64 * 1024;
/// Limit of a server's text in the log, in bytes.
const LONGEST_CAUSE: usize = 200;

#[derive(Debug)]
pub(crate) struct Delivery {
    to: &'static str,
    http: Client,
    url: Url,
    headers: HeaderMap,
    state: DeliveryState,
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryState {
    Accepted,
    Away,
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server may accept it later.
    Away,
    /// The server will never accept it.
    Refused,
}

impl Delivery {
    pub(crate) fn new(to: &'static str, url: Url, headers: HeaderMap) -> Result<Self, reqwest::Error> {
        // Fails only if a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .user_agent(concat!("sched/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .timeout(WITHIN);
        if url.scheme() == "http" {
            // The server is local: no certificates and no proxies.
            http = http.tls_certs_only([]).no_proxy();
        }
        Ok(Self { to, http: http.build()?, url, headers, state: DeliveryState::Accepted, pause: PAUSES.0 })
    }

    /// Delivers one document and returns the response, from which the caller decides whether the
    /// server accepted it ([`Self::record_accepted`], [`Self::record_refused`]).
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
                self.record_refused(&format!("it answers with status {status}"));
                Err(Failure::Refused)
            }
            // The address may contain a password.
            Err(error) => Err(self.is_away(&exit::describe(&reqwest::Error::without_url(error)))),
        }
    }

    pub(crate) async fn pause(&self) {
        tokio::time::sleep(self.pause).await;
    }

    pub(crate) fn record_accepted(&mut self) {
        self.set_state(DeliveryState::Accepted, "");
    }

    /// Records a rejection. `cause` may be the server's text.
    pub(crate) fn record_refused(&mut self, cause: &str) {
        self.set_state(
            DeliveryState::Refused,
            cause.get(..cause.floor_char_boundary(LONGEST_CAUSE)).unwrap_or_default(),
        );
    }

    fn is_away(&mut self, cause: &str) -> Failure {
        if self.state == DeliveryState::Away {
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        self.set_state(DeliveryState::Away, cause);
        Failure::Away
    }

    fn set_state(&mut self, state: DeliveryState, cause: &str) {
        if self.state == state {
            return;
        }
        self.state = state;
        let to = self.to;
        match state {
            DeliveryState::Accepted => tracing::info!("The {to} accepts data again."),
            DeliveryState::Away => {
                tracing::warn!(error = cause, "The {to} cannot be reached; its data is kept, up to a limit.");
            }
            DeliveryState::Refused => {
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
    /// Spawns the task on the current runtime. `run` ends soon after its token is cancelled.
    pub(crate) fn start<F>(name: &'static str, run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        Self { task: spawn_owned(name, run(stop.clone())), stop }
    }

    /// Sends the remaining documents within [`FLUSH_WITHIN`], or until `hard` is cancelled.
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
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "The remaining data could not be sent."
                );
            }
            Err(_elapsed) => {
                tracing::warn!("The server did not accept the remaining data in time.")
            }
        }
    }
}

/// The beginning of a response body: a longer one cannot be valid.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < LONGEST
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
