//! A bad network between a daemon and its database: a TCP proxy that holds, delays or cuts what passes.
//!
//! It listens on a free port of loopback and forwards to the Unix socket of the test server, byte for byte. Faults concern the
//! connections there are as well as new ones. Everything ends with the value.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::config::Host;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Passes everything on.
    Fair,
    /// Passes nothing on and loses nothing: it comes when the weather is fair again.
    Held,
    /// Passes each piece of a request on after this long; answers at once.
    Delayed(Duration),
}

/// A proxy in front of one database.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    weather: watch::Sender<Weather>,
    cuts: watch::Sender<u32>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// A proxy in front of the database at `url`, which is reached through a Unix socket.
    ///
    /// # Panics
    ///
    /// When the URL is another one or there is no free port.
    pub async fn before(url: &str) -> Self {
        let socket = socket_of(url).unwrap_or_else(|| panic!("{url} names no Unix socket"));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap_or_else(|error| panic!("no free port for a proxy: {error}"));
        let address =
            listener.local_addr().unwrap_or_else(|error| panic!("a proxy without an address: {error}"));
        let (weather, cuts) = (watch::channel(Weather::Fair).0, watch::channel(0).0);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, socket, weather.subscribe(), cuts.subscribe()));
        Self { url: url_through(address, url), weather, cuts, _accepting: accepting }
    }

    /// The URL of the database through the proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Passes everything on from now on, what was held back first.
    pub fn clear(&self) {
        self.weather.send_replace(Weather::Fair);
    }

    /// Passes nothing on, in either direction.
    pub fn hold(&self) {
        self.weather.send_replace(Weather::Held);
    }

    /// Passes requests on after `delay` only.
    pub fn delay_requests(&self, delay: Duration) {
        self.weather.send_replace(Weather::Delayed(delay));
    }

    /// Breaks every connection there is; new ones are taken.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn accept(
    listener: TcpListener,
    server: PathBuf,
    weather: watch::Receiver<Weather>,
    cuts: watch::Receiver<u32>,
) {
    let mut connections = JoinSet::new();
    loop {
        // A failure to accept is the client's to notice.
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        connections.spawn(carry(client, server.clone(), weather.clone(), cuts.clone()));
    }
}

/// Carries one connection until either side ends it or it is cut.
async fn carry(
    client: TcpStream,
    server: PathBuf,
    weather: watch::Receiver<Weather>,
    mut cuts: watch::Receiver<u32>,
) {
    cuts.mark_unchanged();
    // Without a server the client sees its connection end, as it would without the proxy.
    let Ok(server) = UnixStream::connect(server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, weather.clone(), true) => {}
        () = pump(from_server, to_client, weather, false) => {}
        _ = cuts.changed() => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: watch::Receiver<Weather>,
    is_request: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    // An error on either side ends the connection, as its end does.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let delay = match *weather.borrow() {
            Weather::Delayed(delay) if is_request => Some(delay),
            _ => None,
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if weather.wait_for(|weather| *weather != Weather::Held).await.is_err() {
            return;
        }
        let Some(piece) = buffer.get(..length) else { return };
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}

/// The socket that a URL names.
fn socket_of(url: &str) -> Option<PathBuf> {
    let config: tokio_postgres::Config = url.parse().ok()?;
    let [Host::Unix(folder)] = config.get_hosts() else { return None };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    Some(folder.join(format!(".s.PGSQL.{port}")))
}

/// The same role and database at another address.
fn url_through(address: SocketAddr, url: &str) -> String {
    let role = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map_or("", |(role, _)| role);
    let database = url.rsplit_once('/').map_or("", |(_, database)| database);
    format!("postgresql://{role}@{address}/{database}")
}
