//! One request and its response, within bounds of time and size.
//!
//! The caller bounds the total time by dropping this future. The partial response stays in
//! [`Progress`].

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, DATE, HeaderMap, RETRY_AFTER};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use super::connect::{self, ConnectError, Connection, Trust};
use super::guard::{Guard, NoTarget};
use super::pool::Pool;
use super::request::PreparedRequest;

#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) stage: Stage,
    pub(super) response: Option<Response>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Connecting,
    Waiting,
    Reading,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
    pub(super) date: Option<String>,
    /// `Content-Encoding`, unless it is `identity`.
    pub(super) encoding: Option<String>,
    pub(super) body: Vec<u8>,
    pub(super) announced: Option<u64>,
    pub(super) is_cut: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error(transparent)]
    NoTarget(#[from] NoTarget),
    #[error("failed to connect within {0:?}")]
    ConnectTimeout(Duration),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection ended before a response arrived")]
    NoResponse(#[source] hyper::Error),
    #[error("the response is not valid HTTP")]
    BadResponse(#[source] hyper::Error),
    #[error("the response ended early")]
    BrokenBody(#[source] hyper::Error),
}

#[derive(Debug)]
pub(super) struct Transport {
    pub(super) guard: Guard,
    pub(super) trust: Trust,
    pub(super) pool: Pool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Name resolution, TCP and TLS together.
    pub(super) connect: Duration,
    /// The first byte beyond the limit ends the reading.
    pub(super) body_bytes: usize,
}

impl Transport {
    pub(super) async fn exchange(
        &self,
        prepared: PreparedRequest,
        bounds: Bounds,
        progress: &mut Progress,
    ) -> Result<(), ExchangeError> {
        // A connection to a listed target is not shared with functions whose target is not checked so.
        let key = (!prepared.must_be_listed).then(|| (prepared.tenant, prepared.endpoint.clone()));
        let (mut incoming, connection) = self.send(prepared, bounds.connect, progress).await?;
        progress.stage = Stage::Reading;
        let response = progress.response.insert(head(&incoming));
        read(incoming.body_mut(), response, bounds.body_bytes).await.map_err(ExchangeError::BrokenBody)?;
        if let Some(key) = key.filter(|_| !response.is_cut) {
            self.pool.put(key, connection);
        }
        Ok(())
    }

    async fn send(
        &self,
        prepared: PreparedRequest,
        time: Duration,
        progress: &mut Progress,
    ) -> Result<(http::Response<Incoming>, Connection), ExchangeError> {
        let PreparedRequest { tenant, url, endpoint, must_be_listed, mut request } = prepared;
        let key = (tenant, endpoint);
        let pooled = || if must_be_listed { None } else { self.pool.take(&key) };
        while let Some(mut connection) = pooled() {
            if connection.sender.ready().await.is_err() {
                continue;
            }
            progress.stage = Stage::Waiting;
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                // The server had closed the connection; no byte was sent.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(exchange_error(error.into_error())),
                },
            }
        }
        progress.stage = Stage::Connecting;
        let connecting = async {
            let addresses = self.guard.addresses(&url).await?;
            if must_be_listed {
                self.guard.check_listed(&url, &addresses)?;
            }
            Ok::<_, ExchangeError>(connect::open(&url, &addresses, time, &self.trust).await?)
        };
        let mut connection = tokio::time::timeout(time, connecting)
            .await
            .unwrap_or(Err(ExchangeError::ConnectTimeout(time)))?;
        progress.stage = Stage::Waiting;
        let response = connection.sender.send_request(request).await.map_err(exchange_error)?;
        Ok((response, connection))
    }
}

fn exchange_error(error: hyper::Error) -> ExchangeError {
    if error.is_parse() { ExchangeError::BadResponse(error) } else { ExchangeError::NoResponse(error) }
}

fn head(response: &http::Response<Incoming>) -> Response {
    let headers = response.headers();
    let encoding =
        text(headers, &CONTENT_ENCODING).filter(|encoding| !encoding.eq_ignore_ascii_case("identity"));
    Response {
        status: response.status().as_u16(),
        retry_after: text(headers, &RETRY_AFTER),
        date: text(headers, &DATE),
        encoding,
        body: Vec::new(),
        announced: response
            .body()
            .size_hint()
            .exact()
            .or_else(|| text(headers, &CONTENT_LENGTH)?.parse().ok()),
        is_cut: false,
    }
}

fn text(headers: &HeaderMap, name: &http::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|text| text.trim().to_owned())
}

async fn read(body: &mut Incoming, into: &mut Response, limit: usize) -> Result<(), hyper::Error> {
    while let Some(frame) = body.frame().await {
        // Trailers are discarded.
        let Ok(data) = frame?.into_data() else { continue };
        let room = limit.saturating_sub(into.body.len());
        into.body.extend_from_slice(data.get(..room).unwrap_or(&data));
        if data.len() > room {
            into.is_cut = true;
            return Ok(());
        }
    }
    Ok(())
}
