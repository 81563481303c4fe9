//! Sends documents to a server that may be away, and which nothing waits for.
//!
//! Who sends keeps what could not be delivered, waits for [`Delivery::pause`], and sends it again; what was refused never will be taken. That the
//! server is away, or refuses, is logged when it begins and when it ends, and not in between.

#[cfg(test)]
pub(crate) mod fake;

use std::future::Future;
use std::time::Duration;

use prost::bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url, redirect};

use tokio_util::sync::CancellationToken;

use crate::exit;
use crate::tasks::{OwnedTask, spawn_owned};

/// How long what is left may take to be sent when the daemon has stopped.
pub(crate) const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// Longest wait for the server: what OpenTelemetry has as the default.
const WITHIN: Duration = Duration::from_secs(10);
/// Waits before the next try while it is away.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest answer that is read.
const LONGEST: usize = 64 * 1024;
/// Longest part of what a server says that is logged, in bytes.
const LONGEST_CAUSE: usize = 200;

/// A way to a server.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// What the log calls the server.
    to: &'static str,
    http: Client,
    url: Url,
    headers: HeaderMap,
    standing: Standing,
    pause: Duration,
}

/// How it went the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Taken,
    Away,
    Refused,
}

/// Why something was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may be taken later.
    Away,
    /// It never will.
    Refused,
}

impl Delivery {
    /// Connects to nothing yet.
    pub(crate) fn new(to: &'static str, url: Url, headers: HeaderMap) -> Result<Self, reqwest::Error> {
        // Fails only when a provider is installed already, and then there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .user_agent(concat!("sched/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .timeout(WITHIN);
        if url.scheme() == "http" {
            // A neighbour: no certificate is looked at, and none of the proxies that lead outside is asked.
            http = http.tls_certs_only([]).no_proxy();
        }
        Ok(Self { to, http: http.build()?, url, headers, standing: Standing::Taken, pause: PAUSES.0 })
    }

    /// Delivers one document; returns the answer, of which the caller says whether it takes the document ([`Self::takes`], [`Self::refuses`]).
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
            // The address may hold a password.
            Err(error) => Err(self.is_away(&exit::describe(&reqwest::Error::without_url(error)))),
        }
    }

    /// The wait before the next try, longer each time.
    pub(crate) async fn pause(&self) {
        tokio::time::sleep(self.pause).await;
    }

    /// Notes that the server took what it was sent.
    pub(crate) fn takes(&mut self) {
        self.stands(Standing::Taken, "");
    }

    /// Notes that the server did not take what it was sent, and why, which may be in its own words.
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

    /// Says once that something has changed.
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

/// A task that sends, while the daemon runs.
#[derive(Debug)]
pub(crate) struct Sending {
    task: OwnedTask<()>,
    stop: CancellationToken,
}

impl Sending {
    /// Needs a runtime, on which it then runs; `run` ends soon after its token is cancelled.
    pub(crate) fn start<F>(name: &'static str, run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        Self { task: spawn_owned(name, run(stop.clone())), stop }
    }

    /// Sends what is left, for [`FLUSH_WITHIN`] at most, or until `hard` is cancelled.
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

/// The beginning of an answer: what is longer is none that could be understood.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < LONGEST
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
