//! A faulty network between a daemon and its database: a TCP proxy that holds, delays or cuts
//! traffic, on command or at requests with given words.
//!
//! It forwards a free port of loopback to the Unix socket of the test server. Faults affect
//! existing and new connections. A drop ends everything.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::config::Host;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkState {
    Normal,
    /// Forwards nothing and loses nothing: held data arrives after the return to `Normal`.
    Held,
    /// Forwards requests after this delay, and responses at once.
    Delayed(Duration),
}

#[derive(Debug, Default)]
struct Trap {
    words: &'static str,
    /// Cuts at every `every`th request.
    every: u32,
    seen: AtomicU32,
    cut: AtomicU32,
}

/// The action at a request with the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    Pass,
    /// The server never sees the request.
    CutBefore,
    /// The server sees the request, but the client never sees the response.
    CutAfter,
}

impl Trap {
    fn look_at(&self, request: &[u8]) -> Around {
        if self.words.is_empty()
            || !request.windows(self.words.len()).any(|window| window == self.words.as_bytes())
        {
            return Around::Pass;
        }
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if !seen.is_multiple_of(self.every) {
            return Around::Pass;
        }
        let cut = self.cut.fetch_add(1, Ordering::Relaxed);
        if cut.is_multiple_of(2) { Around::CutBefore } else { Around::CutAfter }
    }
}

#[derive(Debug)]
pub struct Proxy {
    url: String,
    trap: Arc<Trap>,
    network: watch::Sender<NetworkState>,
    cuts: watch::Sender<u32>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// A proxy for the database at `url`, which must be on a Unix socket.
    ///
    /// # Panics
    ///
    /// If the URL has another form or there is no free port.
    pub async fn before(url: &str) -> Self {
        Self::with_trap(url, Trap::default()).await
    }

    /// A proxy that cuts a connection at every `every`th request with `words`, alternately before
    /// and after the server sees the request.
    ///
    /// # Panics
    ///
    /// As [`Self::before`].
    pub async fn cutting_around(url: &str, words: &'static str, every: u32) -> Self {
        Self::with_trap(url, Trap { words, every, ..Trap::default() }).await
    }

    async fn with_trap(url: &str, trap: Trap) -> Self {
        let trap = Arc::new(trap);
        let socket = socket_of(url).unwrap_or_else(|| panic!("{url} names no Unix socket"));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap_or_else(|error| panic!("no free port for a proxy: {error}"));
        let address =
            listener.local_addr().unwrap_or_else(|error| panic!("a proxy without an address: {error}"));
        let (network, cuts) = (watch::channel(NetworkState::Normal).0, watch::channel(0).0);
        let mut accepting = JoinSet::new();
        let route = Route {
            server: socket,
            network: network.subscribe(),
            cuts: cuts.subscribe(),
            trap: trap.clone(),
        };
        accepting.spawn(route.accept(listener));
        Self { url: url_through(address, url), trap, network, cuts, _accepting: accepting }
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    #[must_use]
    pub fn cut_so_far(&self) -> u32 {
        self.trap.cut.load(Ordering::Relaxed)
    }

    pub fn clear(&self) {
        self.network.send_replace(NetworkState::Normal);
    }

    pub fn hold(&self) {
        self.network.send_replace(NetworkState::Held);
    }

    pub fn delay_requests(&self, delay: Duration) {
        self.network.send_replace(NetworkState::Delayed(delay));
    }

    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

/// The destination of connections, and the faults.
#[derive(Debug, Clone)]
struct Route {
    server: PathBuf,
    network: watch::Receiver<NetworkState>,
    cuts: watch::Receiver<u32>,
    trap: Arc<Trap>,
}

impl Route {
    async fn accept(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            // The client notices a failed accept.
            let Ok((client, _)) = listener.accept().await else { continue };
            while connections.try_join_next().is_some() {}
            connections.spawn(self.clone().carry(client));
        }
    }

    async fn carry(self, client: TcpStream) {
        let Self { server, network, mut cuts, trap } = self;
        cuts.mark_unchanged();
        // Without a server, the client's connection ends.
        let Ok(server) = UnixStream::connect(server).await else { return };
        // Otherwise a small piece waits 40 ms for the acknowledgement of the previous one.
        if client.set_nodelay(true).is_err() {
            return;
        }
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = pump(from_client, to_server, network.clone(), Some(&trap)) => {}
            () = pump(from_server, to_client, network, None) => {}
            _ = cuts.changed() => {}
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut network: watch::Receiver<NetworkState>,
    requests: Option<&Trap>,
) {
    let mut buffer = vec![0; 64 * 1024];
    // An error on either side ends the connection too.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let delay = match *network.borrow() {
            NetworkState::Delayed(delay) if requests.is_some() => Some(delay),
            _ => None,
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if network.wait_for(|network| *network != NetworkState::Held).await.is_err() {
            return;
        }
        let Some(piece) = buffer.get(..length) else { return };
        let around = requests.map_or(Around::Pass, |trap| trap.look_at(piece));
        if around == Around::CutBefore || to.write_all(piece).await.is_err() || around == Around::CutAfter {
            return;
        }
    }
}

#[must_use]
pub fn socket_of(url: &str) -> Option<PathBuf> {
    let config: tokio_postgres::Config = url.parse().ok()?;
    let [Host::Unix(folder)] = config.get_hosts() else { return None };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    Some(folder.join(format!(".s.PGSQL.{port}")))
}

fn url_through(address: SocketAddr, url: &str) -> String {
    let role = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map_or("", |(role, _)| role);
    let database = url.rsplit_once('/').map_or("", |(_, database)| database);
    format!("postgresql://{role}@{address}/{database}")
}
