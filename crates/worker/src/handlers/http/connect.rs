//! Opens connections: TCP to a checked address, TLS for https, HTTP/1.1 with bounds on the
//! response.
//!
//! HTTP/1.1 only: one request at a time is easy to bound and to abort. Dropping a [`Connection`]
//! closes the socket.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// Status line and headers together.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    _task: OwnedTask<()>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// The source is the error of the last address.
    #[error("failed to connect")]
    Tcp(#[source] io::Error),
    /// The certificate does not fit the host, or the server does not use TLS.
    #[error("TLS failed")]
    Tls(#[source] io::Error),
    #[error("TLS cannot be used on this worker")]
    NoTls(#[source] rustls::Error),
    #[error("HTTP handshake failed")]
    Http(#[source] hyper::Error),
}

#[derive(Debug, thiserror::Error)]
#[error("failed to read certificates from {path}", path = path.display())]
pub struct CertificateError {
    path: PathBuf,
    #[source]
    source: rustls::pki_types::pem::Error,
}

/// Read from the system on first use.
#[derive(Debug, Default)]
pub(super) struct Trust {
    extra: Vec<CertificateDer<'static>>,
    config: OnceLock<Arc<rustls::ClientConfig>>,
}

impl Trust {
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, CertificateError> {
        let mut extra = Vec::new();
        if let Some(path) = ca_file {
            let wrong = |source| CertificateError { path: path.to_owned(), source };
            for certificate in CertificateDer::pem_file_iter(path).map_err(wrong)? {
                extra.push(certificate.map_err(wrong)?);
            }
            if extra.is_empty() {
                return Err(wrong(rustls::pki_types::pem::Error::NoItemsFound));
            }
        }
        Ok(Self { extra, config: OnceLock::new() })
    }

    fn config(&self) -> Result<Arc<rustls::ClientConfig>, rustls::Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in &self.extra {
            roots.add(certificate.clone())?;
        }
        if roots.is_empty() {
            tracing::warn!(
                "no certificate authorities found on this machine; calls to https targets will fail"
            );
        }
        let provider = rustls::crypto::ring::default_provider();
        let mut config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to the first address that accepts. The caller bounds the time.
pub(super) async fn open(
    url: &Url,
    addresses: &[SocketAddr],
    time: std::time::Duration,
    trust: &Trust,
) -> Result<Connection, ConnectError> {
    let stream = tcp(addresses, time).await.map_err(ConnectError::Tcp)?;
    let stream: Box<dyn Stream> = if url.scheme() == "https" {
        let config = trust.config().map_err(ConnectError::NoTls)?;
        let connecting = TlsConnector::from(config).connect(server_name(url)?, stream);
        Box::new(connecting.await.map_err(ConnectError::Tls)?)
    } else {
        Box::new(stream)
    };
    let (sender, connection) = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(2 * MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ConnectError::Http)?;
    let task = spawn_owned("http connection", async move {
        if let Err(error) = connection.await {
            // The caller gets its own error.
            tracing::debug!(%error, "connection of an http function failed");
        }
    });
    Ok(Connection { sender, _task: task })
}

/// Each address gets an equal share of the remaining time.
async fn tcp(addresses: &[SocketAddr], time: std::time::Duration) -> io::Result<TcpStream> {
    let began = monotonic();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (position, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - position).unwrap_or(u32::MAX);
        let share = time.saturating_sub(began.elapsed()) / left.max(1);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A request is written as a whole.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_elapsed) => last = io::Error::from(io::ErrorKind::TimedOut),
        }
    }
    Err(last)
}

fn server_name(url: &Url) -> Result<ServerName<'static>, ConnectError> {
    let invalid = || ConnectError::Tls(io::Error::other("the host is not a valid name for a certificate"));
    match url.host().ok_or_else(invalid)? {
        Host::Ipv4(address) => Ok(ServerName::IpAddress(std::net::IpAddr::V4(address).into())),
        Host::Ipv6(address) => Ok(ServerName::IpAddress(std::net::IpAddr::V6(address).into())),
        Host::Domain(name) => {
            let name = sched_runtime::http_targets::normal_name(name).to_owned();
            ServerName::try_from(name).map_err(|_no_name| invalid())
        }
    }
}
