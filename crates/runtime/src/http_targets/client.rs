//! A client for one URL of the settings of a daemon.
//!
//! It connects only to public addresses and to targets on the allow list, without a proxy, and it
//! follows no redirect. The check is in the resolver, so the connection uses exactly the checked
//! addresses. The URL may contain a key: no error and no log line shows it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect};
use url::{Host, Url};

use super::addresses::refusal;
use super::allow::{AllowList, normal_name};
use crate::exit::BoxError;

/// A URL whose path and query are secret.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetUrl(Url);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must begin with http or https and have a host but no user, such as https://hc-ping.com/KEY")]
pub struct InvalidUrl;

impl fmt::Debug for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TargetUrl").field(&self.0.host_str()).finish()
    }
}

impl TargetUrl {
    /// # Errors
    /// The text is not such a URL. The error does not contain the text.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let url = Url::parse(text.trim()).map_err(|_no_url| InvalidUrl)?;
        let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let is_target = matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain;
        if is_target { Ok(Self(url)) } else { Err(InvalidUrl) }
    }

    /// The URL with a further path segment.
    #[must_use]
    pub fn below(&self, segment: &str) -> Self {
        let mut url = self.0.clone();
        // Every http URL has path segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(segment);
        }
        Self(url)
    }

    /// The URL with further parameters.
    #[must_use]
    pub fn with_parameters(&self, parameters: &[(&str, &str)]) -> Self {
        let mut url = self.0.clone();
        url.query_pairs_mut().extend_pairs(parameters);
        Self(url)
    }

    /// For http and https never `None`.
    fn port(&self) -> Option<u16> {
        self.0.port_or_known_default()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Refused(#[from] RefusedTarget),
    #[error("the server answers with status {0}")]
    Status(u16),
    #[error("the call failed")]
    Failed(#[source] reqwest::Error),
}

/// The host, or one of its addresses, is not public.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the target is refused: {host} leads to {kind} address; the setting WORKER_HTTP_ALLOW can allow it")]
pub struct RefusedTarget {
    host: String,
    kind: &'static str,
}

/// Calls one host.
#[derive(Debug, Clone)]
pub struct TargetClient {
    http: Client,
    allow: Arc<AllowList>,
}

impl TargetClient {
    /// A client for the host of `target`. Does not connect.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn new(target: &TargetUrl, allow: AllowList, timeout: Duration) -> Result<Self, CallError> {
        // Fails only if a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let allow = Arc::new(allow);
        let resolver = CheckedResolver { allow: allow.clone(), port: target.port().unwrap_or_default() };
        let mut http = Client::builder()
            .user_agent(concat!("sched/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            // The calls are far apart.
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(resolver))
            .timeout(timeout);
        if target.0.scheme() == "http" {
            http = http.tls_certs_only([]);
        }
        Ok(Self { http: http.build().map_err(CallError::Failed)?, allow })
    }

    /// Sends GET, or POST with a text. Succeeds if the server answers with a status below 300.
    ///
    /// # Errors
    /// The target is refused, the server does not answer, or it answers with another status.
    pub async fn call(&self, target: &TargetUrl, text: Option<String>) -> Result<(), CallError> {
        self.check_literal(target)?;
        let url = target.0.clone();
        let request = match text {
            Some(text) => self.http.post(url).header("content-type", "text/plain; charset=utf-8").body(text),
            None => self.http.get(url),
        };
        let sent = request.send().await;
        let response = sent.map_err(|error| CallError::Failed(error.without_url()))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(CallError::Status(status.as_u16())),
        }
    }

    /// The resolver does not see an address in the URL.
    fn check_literal(&self, target: &TargetUrl) -> Result<(), RefusedTarget> {
        let address = match target.0.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        let port = target.port().unwrap_or_default();
        check(&self.allow, &address.to_string(), (address, port))
    }
}

fn check(allow: &AllowList, host: &str, (address, port): (IpAddr, u16)) -> Result<(), RefusedTarget> {
    match refusal(address) {
        Some(kind) if !allow.has_address(address, port) => Err(RefusedTarget { host: host.to_owned(), kind }),
        _ => Ok(()),
    }
}

/// Returns addresses only if every one of them may be called.
#[derive(Debug)]
struct CheckedResolver {
    allow: Arc<AllowList>,
    port: u16,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (allow, port) = (self.allow.clone(), self.port);
        Box::pin(async move {
            let name = name.as_str();
            let found: Vec<_> = tokio::net::lookup_host((name, port)).await?.collect();
            if !allow.has_host(normal_name(name), port) {
                for address in &found {
                    check(&allow, name, (address.ip(), port))?;
                }
            }
            Ok::<Addrs, BoxError>(Box::new(found.into_iter()))
        })
    }
}

#[cfg(test)]
mod tests {
    use scripted_http::{Response, Server};

    use super::*;
    use crate::exit;

    fn client(url: &str, allowed: &[&str]) -> (TargetClient, TargetUrl) {
        let target = TargetUrl::parse(url).unwrap();
        let allow = allowed.iter().map(|entry| entry.parse().unwrap()).collect();
        (TargetClient::new(&target, allow, Duration::from_secs(5)).unwrap(), target)
    }

    fn answers(status: u16) -> Server {
        Server::start(Response::new(status).header("location", "/other"))
    }

    #[test]
    fn invalid_url_is_refused_without_its_text() {
        for text in ["", "s3cret", "ftp://host/s3cret", "https://u:s3cret@host/", "https://host/#s3cret"] {
            let error = TargetUrl::parse(text).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let shown = format!("{:?}", TargetUrl::parse("https://host/s3cret?key=s3cret").unwrap());
        assert!(shown.contains("host") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn url_is_extended_before_its_query() {
        let url = |text| TargetUrl::parse(text).unwrap();
        assert_eq!(url("https://host/key/").below("fail"), url("https://host/key/fail"));
        assert_eq!(url("https://host/key?create=1").below("fail"), url("https://host/key/fail?create=1"));
        let with = url("https://host/key?a=1").with_parameters(&[("state", "fail"), ("message", "a b&c")]);
        assert_eq!(with, url("https://host/key?a=1&state=fail&message=a+b%26c"));
    }

    #[tokio::test]
    async fn private_target_needs_the_allow_list() {
        let server = answers(200);
        let port = server.address().port();
        for host in ["127.0.0.1", "localhost"] {
            let url = format!("http://{host}:{port}/s3cret");
            let (refused, target) = client(&url, &[]);
            let error = exit::describe(&refused.call(&target, None).await.unwrap_err());
            assert!(error.contains("WORKER_HTTP_ALLOW") && !error.contains("s3cret"), "{error}");
            let (allowed, target) = client(&url, &[&format!("{host}:{port}")]);
            allowed.call(&target, Some("why".into())).await.unwrap();
        }
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[0].method.as_str(), requests[0].text().as_str()), ("POST", "why"));
    }

    #[tokio::test]
    async fn other_status_is_an_error() {
        for status in [302, 404, 500] {
            let server = answers(status);
            let (client, target) = client(&server.url("/key"), &["127.0.0.1"]);
            let error = client.call(&target, None).await.unwrap_err();
            assert!(matches!(error, CallError::Status(seen) if seen == status), "{error}");
            assert_eq!(server.requests().len(), 1, "no redirect is followed");
        }
    }
}
