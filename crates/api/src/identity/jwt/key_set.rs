//! The public keys of an issuer, as the issuer publishes them.
//!
//! The API fetches them for the first token that needs them, and keeps them for some minutes. A
//! token that names an unknown key causes an earlier fetch, so a rotation needs no manual step.
//!
//! # Limits
//! The API sends at most one request in ten seconds, with a limit on its time and on the size of
//! the response. Until the next response, and during an outage of the issuer, the last keys stay
//! valid for an hour. Only two kinds of token wait: the one that causes the request, and those that
//! name an unknown key.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Client, redirect};
use sched_model::domain::identity::jwt::{JwkSetError, JwtAlgorithm, VerifyingKey, parse_key_set};
use sched_runtime::exit::{self, BoxError};
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::Mutex as Turn;
use url::Url;

use crate::error::ApiError;

const WITHIN: Duration = Duration::from_secs(5);
const LONGEST: usize = 256 * 1024;
/// Age at which the keys are fetched again.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// Age up to which the keys are used while the issuer is unreachable.
const BELIEVED_FOR: Duration = Duration::from_secs(3600);
/// Shortest time between two requests.
const PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct KeySet {
    url: Url,
    algorithm: JwtAlgorithm,
    http: Client,
    cache: Mutex<CachedKeys>,
    /// Locked during a request to the issuer.
    refresh_lock: Turn<()>,
}

#[derive(Debug, Default)]
struct CachedKeys {
    keys: Arc<Vec<VerifyingKey>>,
    /// Time of the last response with keys.
    received_at: Option<Instant>,
    /// Time of the last request.
    requested_at: Option<Instant>,
}

impl CachedKeys {
    fn are_younger_than(&self, age: Duration, now: Instant) -> bool {
        self.received_at.is_some_and(|received_at| now.saturating_duration_since(received_at) < age)
    }

    /// Whether the known keys, up to this age, decide a token that names this key.
    fn can_verify(&self, id: Option<&str>, age: Duration, now: Instant) -> bool {
        self.keys.iter().any(|key| key.may_be(id)) && self.are_younger_than(age, now)
    }

    /// Whether a token that names this key must cause a request to the issuer.
    fn needs_refresh(&self, id: Option<&str>, now: Instant) -> bool {
        let can_verify = self.can_verify(id, FRESH_FOR, now);
        let may_request =
            self.requested_at.is_none_or(|requested_at| now.saturating_duration_since(requested_at) >= PAUSE);
        !can_verify && may_request
    }
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the issuer cannot be reached")]
    Request(#[from] reqwest::Error),
    #[error("the issuer answers with status {0}")]
    Status(u16),
    #[error("the issuer answers with more than {LONGEST} bytes")]
    TooLong,
    #[error("the issuer answers with no keys")]
    Keys(#[from] JwkSetError),
}

impl KeySet {
    pub(super) fn new(url: Url, algorithm: JwtAlgorithm) -> Result<Self, BoxError> {
        // Fails only if a provider is installed already; that provider is used then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("sched-api/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .timeout(WITHIN);
        if url.scheme() == "http" {
            // On loopback: no certificate is checked. No proxy, because the loopback of a proxy is
            // another machine.
            builder = builder.tls_certs_only([]).no_proxy();
        }
        Ok(Self {
            url,
            algorithm,
            http: builder.build()?,
            cache: Mutex::default(),
            refresh_lock: Turn::default(),
        })
    }

    /// Fails if the issuer has never been reached, or not for a long time.
    pub(super) async fn keys_for(&self, id: Option<&str>) -> Result<Arc<Vec<VerifyingKey>>, ApiError> {
        let can_wait = !self.cache().can_verify(id, BELIEVED_FOR, monotonic());
        let turn =
            if can_wait { Some(self.refresh_lock.lock().await) } else { self.refresh_lock.try_lock().ok() };
        if turn.is_some() && self.start_refresh(id) {
            match self.fetch().await {
                Ok(keys) => {
                    tracing::info!(keys = keys.len(), "Read the keys of the token issuer.");
                    let mut cache = self.cache();
                    (cache.keys, cache.received_at) = (Arc::new(keys), Some(monotonic()));
                }
                Err(error) => {
                    let cause = exit::describe(&error);
                    tracing::warn!(error = cause, "The keys of the token issuer cannot be read.");
                }
            }
        }
        let cache = self.cache();
        if cache.are_younger_than(BELIEVED_FOR, monotonic()) {
            Ok(cache.keys.clone())
        } else {
            Err(ApiError::NoTokenKeys)
        }
    }

    /// Whether the caller must send a request now. If so, its time is stored.
    fn start_refresh(&self, id: Option<&str>) -> bool {
        let mut cache = self.cache();
        let needs_refresh = cache.needs_refresh(id, monotonic());
        if needs_refresh {
            cache.requested_at = Some(monotonic());
        }
        needs_refresh
    }

    fn cache(&self) -> MutexGuard<'_, CachedKeys> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self) -> Result<Vec<VerifyingKey>, FetchError> {
        let mut answer = self.http.get(self.url.clone()).send().await?;
        if answer.status().as_u16() != 200 {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > LONGEST {
                return Err(FetchError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(parse_key_set(&body, self.algorithm)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(now: Instant, received_at: u64, requested_at: u64) -> CachedKeys {
        let ago = |seconds| now.checked_sub(Duration::from_secs(seconds));
        let secret = VerifyingKey::secret(&"x".repeat(32).into()).unwrap();
        CachedKeys {
            keys: Arc::new(vec![secret]),
            received_at: ago(received_at),
            requested_at: ago(requested_at),
        }
    }

    #[test]
    fn the_issuer_is_asked_when_it_is_time_and_never_twice_in_ten_seconds() {
        let now = monotonic() + Duration::from_secs(10_000);
        assert!(CachedKeys::default().needs_refresh(None, now));
        assert!(!cache(now, 299, 299).needs_refresh(None, now));
        assert!(cache(now, 300, 300).needs_refresh(None, now));
        assert!(!cache(now, 300, 9).needs_refresh(None, now));
        let unknown = CachedKeys { keys: Arc::default(), ..cache(now, 20, 20) };
        assert!(unknown.needs_refresh(Some("new"), now));
        assert!(!CachedKeys { keys: Arc::default(), ..cache(now, 9, 9) }.needs_refresh(Some("new"), now));
    }
}
