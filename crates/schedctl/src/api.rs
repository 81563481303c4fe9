//! The client of the API. The client never repeats a request: only the user can decide to send a
//! write again, with `--idempotency-key`. It follows no redirects, so the key goes only to the
//! given address.

mod error;
mod events;

use std::time::Duration;

use reqwest::header::{ETAG, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, redirect};
use sched_wire::{BASE_PATH, DETAILED_HEALTH, Health, Page, Problem};
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::endpoint::{ApiPlace, Source};
use crate::local_install;

pub(crate) use error::ApiError;
pub(crate) use events::Events;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longer than the limits of the API, so that its error arrives first.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const STREAM_LIMIT: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: Client,
    place: ApiPlace,
}

impl Api {
    /// Sends nothing yet.
    pub(crate) fn new(place: ApiPlace) -> Result<Self, ApiError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &place.key {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {}", key.expose_secret())).map_err(ApiError::Key)?;
            value.set_sensitive(true);
            headers.insert(reqwest::header::AUTHORIZATION, value);
        }
        let mut builder = Client::builder()
            .user_agent(concat!("schedctl/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .timeout(ANSWER_LIMIT);
        if place.url.scheme() == "http" {
            // Needs no certificates on the machine.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&place.url) {
            // The loopback of a proxy is that of another machine.
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(ApiError::Setup)?;
        Ok(Self { http, place })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.place.url
    }

    pub(crate) fn source(&self) -> &Source {
        &self.place.source
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(self.request(Method::GET, path)?.query(query)).await
    }

    pub(crate) async fn get_tagged<T: DeserializeOwned>(
        &self,
        path: &[&str],
    ) -> Result<(T, Option<String>), ApiError> {
        let answer = self.succeed(self.request(Method::GET, path)?).await?;
        let status = answer.status().as_u16();
        let tag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let body = answer.bytes().await.map_err(|error| self.unreachable(error))?;
        let shown = serde_json::from_slice(&body).map_err(|source| self.foreign(status, Some(source)))?;
        Ok((shown, tag))
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        header: Option<(&'static str, &str)>,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(with(self.request(Method::POST, path)?.json(body), header)?).await
    }

    pub(crate) async fn post_with<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(self.request(Method::POST, path)?.query(query).json(body)).await
    }

    pub(crate) async fn replace<T: DeserializeOwned>(
        &self,
        path: &[&str],
        tag: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(with(self.request(Method::PUT, path)?.json(body), Some(("If-Match", tag)))?).await
    }

    pub(crate) async fn create<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(with(self.request(Method::PUT, path)?.json(body), Some(("If-None-Match", "*")))?).await
    }

    pub(crate) async fn remove<T: DeserializeOwned>(
        &self,
        path: &[&str],
        tag: Option<&str>,
    ) -> Result<T, ApiError> {
        self.send(with(self.request(Method::DELETE, path)?, tag.map(|tag| ("If-Match", tag)))?).await
    }

    pub(crate) async fn delete_telling<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(self.request(Method::DELETE, path)?.query(query)).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(self.request(Method::PUT, path)?.query(query).json(body)).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.send(self.request(Method::PATCH, path)?.json(body)).await
    }

    pub(crate) async fn delete(&self, path: &[&str], query: &impl Serialize) -> Result<(), ApiError> {
        self.exchange(self.request(Method::DELETE, path)?.query(query)).await.map(|_nothing| ())
    }

    /// Returns the first `limit` items as one page. If the API returns more than requested, all
    /// items stay, because the cursor continues after them.
    pub(crate) async fn list<T: DeserializeOwned, Q: Serialize>(
        &self,
        path: &[&str],
        limit: usize,
        query: impl Fn(u32, Option<String>) -> Q,
    ) -> Result<Page<T>, ApiError> {
        let mut all = Page::new(Vec::new(), None);
        loop {
            let wanted = u32::try_from(limit.saturating_sub(all.items.len())).unwrap_or(u32::MAX);
            let size = wanted.clamp(1, sched_wire::MAX_PAGE);
            let page: Page<T> = self.get(path, &query(size, all.next_cursor.take())).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.items.len() >= limit {
                return Ok(all);
            }
        }
    }

    pub(crate) async fn events(&self, path: &[&str], query: &impl Serialize) -> Result<Events, ApiError> {
        let request = self.request(Method::GET, path)?.query(query).timeout(STREAM_LIMIT);
        self.succeed(request).await.map(Events::new)
    }

    /// The API also sends the health with an error status.
    pub(crate) async fn health(&self) -> Result<Health, ApiError> {
        let request = self.request_at(Method::GET, DETAILED_HEALTH, &[])?;
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&body).map_err(|source| match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => ApiError::Refused(Box::new(problem)),
            Err(_) => self.foreign(status.as_u16(), Some(source)),
        })
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ApiError> {
        self.request_at(method, BASE_PATH, path)
    }

    fn request_at(&self, method: Method, base: &str, path: &[&str]) -> Result<RequestBuilder, ApiError> {
        let mut url = self.place.url.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().extend(base.trim_matches('/').split('/')).extend(path);
            }
            Err(()) => return Err(ApiError::NoPath),
        }
        url.set_query(None);
        url.set_fragment(None);
        Ok(self.http.request(method, url))
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ApiError> {
        let (status, body) = self.exchange(request).await?;
        serde_json::from_slice(&body).map_err(|source| self.foreign(status, Some(source)))
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<(u16, Vec<u8>), ApiError> {
        let answer = self.succeed(request).await?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|error| self.unreachable(error))?;
        Ok((status, body.into()))
    }

    async fn succeed(&self, request: RequestBuilder) -> Result<reqwest::Response, ApiError> {
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        if answer.status().is_success() { Ok(answer) } else { Err(self.refusal(answer).await?) }
    }

    async fn refusal(&self, answer: reqwest::Response) -> Result<ApiError, ApiError> {
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| self.unreachable(error))?;
        Ok(match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => ApiError::Refused(Box::new(problem)),
            Err(_) => self.foreign(status.as_u16(), None),
        })
    }

    fn unreachable(&self, error: reqwest::Error) -> ApiError {
        ApiError::Unreachable {
            url: self.place.url.to_string(),
            origin: self.place.source.clone(),
            dev_runs: self.place.source.dev().is_some_and(local_install::is_running),
            source: error.without_url(),
        }
    }

    fn foreign(&self, status: u16, source: Option<serde_json::Error>) -> ApiError {
        ApiError::Foreign {
            url: self.place.url.to_string(),
            origin: self.place.source.clone(),
            status,
            source,
        }
    }
}

fn with(request: RequestBuilder, header: Option<(&'static str, &str)>) -> Result<RequestBuilder, ApiError> {
    let Some((name, value)) = header else { return Ok(request) };
    let value = HeaderValue::from_str(value).map_err(|source| ApiError::Header { name, source })?;
    Ok(request.header(HeaderName::from_bytes(name.as_bytes()).map_err(ApiError::HeaderName)?, value))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests;
