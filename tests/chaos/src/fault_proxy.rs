//! The network between one daemon and its database: a TCP proxy whose faults change while
//! connections are open.
//!
//! It listens on loopback and forwards to a Unix socket or a port. Held data arrives in sequence
//! when the fault is over. Everything ends when the value is dropped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use test_support::Client;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::plan::NetworkState;

/// The statement that ends a transaction permanently.
const COMMIT: &[u8] = b"COMMIT";

#[derive(Debug, Clone)]
pub(crate) enum Server {
    Socket(PathBuf),
    Port(SocketAddr),
}

#[derive(Debug)]
pub(crate) struct FaultProxy {
    url: String,
    address: SocketAddr,
    network: watch::Sender<NetworkState>,
    cuts: watch::Sender<u32>,
    /// Held during a fault, so that faults do not overlap.
    maker: Mutex<()>,
    /// How often a fault affected traffic.
    felt: Arc<AtomicU64>,
    /// Every open connection holds a clone.
    open: Arc<()>,
    _accepting: JoinSet<()>,
}

#[derive(Debug, Clone)]
struct Link {
    server: Server,
    network: watch::Receiver<NetworkState>,
    cuts: watch::Receiver<u32>,
    felt: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

impl FaultProxy {
    pub(crate) async fn to(server: Server, database: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port for a proxy")?;
        let address = listener.local_addr()?;
        let url = format!("postgresql://postgres@{address}/{database}");
        let (network, cuts) = (watch::channel(NetworkState::Normal).0, watch::channel(0).0);
        let (felt, open) = (Arc::default(), Arc::new(()));
        let mut accepting = JoinSet::new();
        let link =
            Link { server, network: network.subscribe(), cuts: cuts.subscribe(), felt: Arc::clone(&felt) };
        accepting.spawn(accept(listener, link, open.clone()));
        Ok(Self { url, address, network, cuts, maker: Mutex::new(()), felt, open, _accepting: accepting })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Applies a fault for as long as `lasts` runs. Concurrent calls run one after the other.
    /// Returns whether the fault affected traffic.
    pub(crate) async fn make(&self, network: NetworkState, lasts: impl Future<Output = ()>) -> bool {
        let _turn = self.maker.lock().await;
        let before = self.felt.load(Ordering::Relaxed);
        self.network.send_replace(network);
        let cut = if network == NetworkState::Refused { self.cut() } else { 0 };
        lasts.await;
        self.clear();
        cut > 0 || self.felt.load(Ordering::Relaxed) > before
    }

    pub(crate) fn clear(&self) {
        self.network.send_replace(NetworkState::Normal);
    }

    pub(crate) fn cut(&self) -> usize {
        // This value and the accept task hold one each.
        let open = Arc::strong_count(&self.open).saturating_sub(2);
        self.cuts.send_modify(|cuts| *cuts += 1);
        open
    }
}

async fn accept(listener: TcpListener, link: Link, open: Arc<()>) {
    let mut connections = JoinSet::new();
    loop {
        // The client notices a failed accept.
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        if *link.network.borrow() == NetworkState::Refused {
            link.felt.fetch_add(1, Ordering::Relaxed);
        } else {
            connections.spawn(carry(client, link.clone(), open.clone()));
        }
    }
}

async fn carry(client: TcpStream, mut link: Link, _open: Arc<()>) {
    link.cuts.mark_unchanged();
    let mut cuts = link.cuts.clone();
    // Otherwise a small piece waits 40 ms for the acknowledgement of the previous one.
    if client.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    // Without a server the client's connection ends.
    match link.server.clone() {
        Server::Socket(path) => {
            let Ok(server) = UnixStream::connect(path).await else { return };
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = pump(from_client, to_server, link.clone(), Direction::Requests) => {}
                () = pump(from_server, to_client, link, Direction::Answers) => {}
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
                () = pump(from_client, to_server, link.clone(), Direction::Requests) => {}
                () = pump(from_server, to_client, link, Direction::Answers) => {}
                _ = cuts.changed() => {}
            }
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    link: Link,
    direction: Direction,
) {
    let Link { mut network, felt, .. } = link;
    let is_held = |network: &NetworkState| match direction {
        Direction::Requests => *network == NetworkState::Held,
        Direction::Answers => matches!(network, NetworkState::Held | NetworkState::HalfOpen),
    };
    let mut buffer = vec![0; 64 * 1024];
    // An error ends the connection, as a close does.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let now = *network.borrow();
        let Some(piece) = buffer.get(..length) else { return };
        let commits =
            direction == Direction::Requests && piece.windows(COMMIT.len()).any(|window| window == COMMIT);
        let is_cut = commits && matches!(now, NetworkState::CutBeforeCommit | NetworkState::CutAfterCommit);
        let delay = match now {
            NetworkState::Delayed(delay) if direction == Direction::Requests => Some(delay),
            _ => None,
        };
        if is_cut || delay.is_some() || is_held(&now) {
            felt.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if network.wait_for(|network| !is_held(network)).await.is_err() {
            return;
        }
        if is_cut && now == NetworkState::CutBeforeCommit {
            return;
        }
        if to.write_all(piece).await.is_err() || is_cut {
            return;
        }
    }
}

/// A connection directly to the server.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    test_support::connect(url).await.map_err(|error| anyhow::anyhow!("{error}"))
}
