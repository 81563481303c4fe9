//! A faulty network between a daemon and its database. The TCP proxy holds, delays or cuts traffic,
//! either on command or at requests with given words.
//!
//! It listens on a free port of loopback and forwards to the Unix socket of the test server, byte
//! for byte. Faults affect existing connections as well as new ones. Everything ends when the value
//! is dropped.

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

/// The state of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Forwards everything.
    Fair,
    /// Forwards nothing and loses nothing: held data arrives after the return to `Fair`.
    Held,
    /// Forwards each piece of a request after this delay; forwards responses at once.
    Delayed(Duration),
}

/// Cuts connections at requests that contain given words.
#[derive(Debug, Default)]
struct Trap {
    words: &'static str,
    /// Cuts at every `every`th such request.
    every: u32,
    seen: AtomicU32,
    cut: AtomicU32,
}

/// The action for a connection whose request contains the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// No cut.
    Pass,
    /// The proxy cuts it, and the server never sees the request.
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

/// A proxy in front of one database.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    trap: Arc<Trap>,
    weather: watch::Sender<Weather>,
    cuts: watch::Sender<u32>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// A proxy in front of the database at `url`, which must be on a Unix socket.
    ///
    /// # Panics
    ///
    /// When the URL has another form or there is no free port.
    pub async fn before(url: &str) -> Self {
        Self::with_trap(url, Trap::default()).await
    }

    /// A proxy that cuts a connection at every `every`th request that contains `words`. It
    /// alternates: the cut comes before the server sees the request, or after that, so that the
    /// client never sees the response.
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
        let (weather, cuts) = (watch::channel(Weather::Fair).0, watch::channel(0).0);
        let mut accepting = JoinSet::new();
        let route = Route {
            server: socket,
            weather: weather.subscribe(),
            cuts: cuts.subscribe(),
            trap: trap.clone(),
        };
        accepting.spawn(route.accept(listener));
        Self { url: url_through(address, url), trap, weather, cuts, _accepting: accepting }
    }

    /// The URL of the database through the proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The number of connections cut at the words.
    #[must_use]
    pub fn cut_so_far(&self) -> u32 {
        self.trap.cut.load(Ordering::Relaxed)
    }

    /// Forwards everything from now on, held data first.
    pub fn clear(&self) {
        self.weather.send_replace(Weather::Fair);
    }

    /// Forwards nothing, in either direction.
    pub fn hold(&self) {
        self.weather.send_replace(Weather::Held);
    }

    /// Forwards requests only after `delay`.
    pub fn delay_requests(&self, delay: Duration) {
        self.weather.send_replace(Weather::Delayed(delay));
    }

    /// Breaks every existing connection; new ones are accepted.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

/// The way of connections through the proxy, and the faults on it.
#[derive(Debug, Clone)]
struct Route {
    /// Socket of the server.
    server: PathBuf,
    weather: watch::Receiver<Weather>,
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

    /// Forwards one connection until either side closes it or the proxy cuts it.
    async fn carry(self, client: TcpStream) {
        let Self { server, weather, mut cuts, trap } = self;
        cuts.mark_unchanged();
        // Without a server the client's connection ends, as it would without the proxy.
        let Ok(server) = UnixStream::connect(server).await else { return };
        // Otherwise a small piece waits for the acknowledgement of the previous one, which takes 40 ms.
        if client.set_nodelay(true).is_err() {
            return;
        }
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = pump(from_client, to_server, weather.clone(), Some(&trap)) => {}
            () = pump(from_server, to_client, weather, None) => {}
            _ = cuts.changed() => {}
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: watch::Receiver<Weather>,
    requests: Option<&Trap>,
) {
    let mut buffer = vec![0; 64 * 1024];
    // An error on either side ends the connection, as an orderly close does.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let delay = match *weather.borrow() {
            Weather::Delayed(delay) if requests.is_some() => Some(delay),
            _ => None,
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if weather.wait_for(|weather| *weather != Weather::Held).await.is_err() {
            return;
        }
        let Some(piece) = buffer.get(..length) else { return };
        let around = requests.map_or(Around::Pass, |trap| trap.look_at(piece));
        if around == Around::CutBefore || to.write_all(piece).await.is_err() || around == Around::CutAfter {
            return;
        }
    }
}

/// The Unix socket in a URL, if there is one.
#[must_use]
pub fn socket_of(url: &str) -> Option<PathBuf> {
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
