//! The network between one daemon and its database: a TCP proxy whose weather changes while connections are open.
//!
//! It listens on a free port of loopback and forwards to a Unix socket or to a port. What is held comes when the weather is fair again, and in order. Everything
//! ends with the value.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use test_support::Client;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::plan::Weather;

/// What ends a transaction for good.
const COMMIT: &[u8] = b"COMMIT";

/// Where a way leads.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    Socket(PathBuf),
    Port(SocketAddr),
}

/// A way to the database.
#[derive(Debug)]
pub(crate) struct Way {
    url: String,
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    cuts: watch::Sender<u32>,
    /// Held by whoever makes the weather.
    maker: Mutex<()>,
    _accepting: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

impl Way {
    /// A way to the database of that name.
    pub(crate) async fn to(server: Server, database: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port for a proxy")?;
        let address = listener.local_addr()?;
        let url = format!("postgresql://postgres@{address}/{database}");
        let (weather, cuts) = (watch::channel(Weather::Fair).0, watch::channel(0).0);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, server, weather.subscribe(), cuts.subscribe()));
        Ok(Self { url, address, weather, cuts, maker: Mutex::new(()), _accepting: accepting })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes the weather for as long as `lasts` takes; then it is fair. One after the other.
    pub(crate) async fn make(&self, weather: Weather, lasts: impl Future<Output = ()>) {
        let _turn = self.maker.lock().await;
        self.weather.send_replace(weather);
        if weather == Weather::Refused {
            self.cut();
        }
        lasts.await;
        self.clear();
    }

    /// Passes everything on from now on.
    pub(crate) fn clear(&self) {
        self.weather.send_replace(Weather::Fair);
    }

    /// Breaks every connection there is.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn accept(
    listener: TcpListener,
    server: Server,
    weather: watch::Receiver<Weather>,
    cuts: watch::Receiver<u32>,
) {
    let mut connections = JoinSet::new();
    loop {
        // A failure to accept is the client's to notice.
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        if *weather.borrow() != Weather::Refused {
            connections.spawn(carry(client, server.clone(), weather.clone(), cuts.clone()));
        }
    }
}

/// Carries one connection until either side ends it or it is cut.
async fn carry(
    client: TcpStream,
    server: Server,
    weather: watch::Receiver<Weather>,
    mut cuts: watch::Receiver<u32>,
) {
    cuts.mark_unchanged();
    // Otherwise a small piece waits until the one before it is acknowledged, which takes 40 ms: a slow network that nobody ordered.
    if client.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    // Without a server the client sees its connection end, as it would without the proxy.
    match server {
        Server::Socket(path) => {
            let Ok(server) = UnixStream::connect(path).await else { return };
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = pump(from_client, to_server, weather.clone(), Direction::Requests) => {}
                () = pump(from_server, to_client, weather, Direction::Answers) => {}
                _ = cuts.changed() => {}
            }
        }
        Server::Port(address) => {
            let Ok(server) = TcpStream::connect(address).await else { return };
            if server.set_nodelay(true).is_err() {
                return;
            }
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = pump(from_client, to_server, weather.clone(), Direction::Requests) => {}
                () = pump(from_server, to_client, weather, Direction::Answers) => {}
                _ = cuts.changed() => {}
            }
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: watch::Receiver<Weather>,
    direction: Direction,
) {
    let is_held = |weather: &Weather| match direction {
        Direction::Requests => *weather == Weather::Held,
        Direction::Answers => matches!(weather, Weather::Held | Weather::HalfOpen),
    };
    let mut buffer = vec![0; 64 * 1024];
    // An error on either side ends the connection, as its end does.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let now = *weather.borrow();
        if let (Weather::Delayed(delay), Direction::Requests) = (now, direction) {
            tokio::time::sleep(delay).await;
        }
        if weather.wait_for(|weather| !is_held(weather)).await.is_err() {
            return;
        }
        let Some(piece) = buffer.get(..length) else { return };
        let commits =
            direction == Direction::Requests && piece.windows(COMMIT.len()).any(|window| window == COMMIT);
        if (commits && now == Weather::CutBeforeCommit) || to.write_all(piece).await.is_err() {
            return;
        }
        if commits && now == Weather::CutAfterCommit {
            return;
        }
    }
}

/// A connection for plain SQL, straight to the server.
///
/// # Errors
/// When the server does not take it.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    test_support::connect(url).await.map_err(|error| anyhow::anyhow!("{error}"))
}
