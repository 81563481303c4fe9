//! The listener of the pages, on a separate thread: the process reports its liveness while the
//! runtime is busy.
//!
//! [`HealthServer::bind`] fails for a port in use. [`HealthServer::run`] serves until its token is
//! cancelled. The listener does not handle signals.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::{App, HttpServer, web};
use tokio_util::sync::CancellationToken;

use super::{HealthState, pages};
use crate::config::HealthSettings;
use crate::exit::{self, BoxError, ExitStatus};

/// Interval of the renewal of histograms.
const UPKEEP: Duration = Duration::from_secs(5);
/// Seconds for open requests at a stop.
const STOP_SECONDS: u64 = 2;

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another with --{setting}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub setting: &'static str,
    #[source]
    pub source: io::Error,
}

impl ExitStatus for ListenError {
    fn exit_code(&self) -> u8 {
        exit::LISTEN
    }
}

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
    /// If the address or port is not available.
    pub fn bind(settings: &HealthSettings, state: HealthState) -> Result<Self, ListenError> {
        let address = settings.socket_addr();
        let fault = |source| ListenError { address, setting: "health-port", source };
        let listener = TcpListener::bind(address).map_err(fault)?;
        let addr = listener.local_addr().map_err(fault)?;
        Ok(Self { listener, addr, state })
    }

    /// The bound address, with the port chosen for port 0.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `cancel` is cancelled and open requests have ended.
    ///
    /// # Errors
    /// If the listener fails.
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
        // The stop needs a polled server future.
        let (ended, ()) = tokio::join!(server, handle.stop(true));
        Ok(ended?)
    }
}
