//! The listener of the pages.
//!
//! It has a separate thread, so that the process still reports its liveness while the runtime is
//! busy. [`HealthServer::bind`] binds the port, where a port in use can still prevent the start.
//! Serving begins with [`HealthServer::run`] and ends with its token. The listener does not handle
//! signals.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::{App, HttpServer, web};
use tokio_util::sync::CancellationToken;

use super::{HealthState, pages};
use crate::config::HealthSettings;
use crate::exit::{self, BoxError, ExitStatus};

/// How often histograms are renewed.
const UPKEEP: Duration = Duration::from_secs(5);
/// Seconds that open requests have to end at a stop; each takes milliseconds.
const STOP_SECONDS: u64 = 2;

/// Binding an address failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another with --{setting}")]
pub struct ListenError {
    pub address: SocketAddr,
    /// The setting that names the port.
    pub setting: &'static str,
    #[source]
    pub source: io::Error,
}

impl ExitStatus for ListenError {
    fn exit_code(&self) -> u8 {
        exit::LISTEN
    }
}

/// A bound listener that is ready to serve.
#[derive(Debug)]
pub struct HealthServer {
    listener: TcpListener,
    addr: SocketAddr,
    state: HealthState,
}

impl HealthServer {
    /// Binds the configured address.
    ///
    /// # Errors
    /// When the address or port is not available.
    pub fn bind(settings: &HealthSettings, state: HealthState) -> Result<Self, ListenError> {
        let address = settings.socket_addr();
        let fault = |source| ListenError { address, setting: "health-port", source };
        let listener = TcpListener::bind(address).map_err(fault)?;
        let addr = listener.local_addr().map_err(fault)?;
        Ok(Self { listener, addr, state })
    }

    /// The bound address, with the port that the system chose for port 0.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `cancel` is cancelled and open requests have ended.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn run(self, cancel: CancellationToken) -> Result<(), BoxError> {
        let state = self.state.clone();
        let app = move || {
            let state = state.clone();
            App::new()
                .configure(|config| pages::configure(config, state))
                .default_service(web::to(pages::not_found))
        };
        let server = HttpServer::new(app)
            .workers(1)
            .disable_signals()
            .shutdown_timeout(STOP_SECONDS)
            .listen(self.listener)?
            .run();
        let handle = server.handle();
        tracing::info!(health.address = %self.addr, "Serving health and metrics.");
        let mut server = std::pin::pin!(server);
        let mut upkeep = tokio::time::interval(UPKEEP);
        loop {
            tokio::select! {
                ended = &mut server => return Ok(ended?),
                () = cancel.cancelled() => break,
                _ = upkeep.tick() => self.state.upkeep(),
            }
        }
        // The stop needs the server future to be polled.
        let (ended, ()) = tokio::join!(server, handle.stop(true));
        Ok(ended?)
    }
}
