//! Requests of the API to itself, through its own listener. They feed the watchdog of the service
//! manager: a listener that accepts nothing, or whose threads are all stuck, ends the process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use sched_runtime::service_manager::ServiceManager;
use sched_runtime::tasks::BoxError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const PERIOD: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Several requests must fail.
const LONGEST_TURN: Duration = Duration::from_secs(30);
const REQUEST: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

pub(crate) async fn run(
    listener: SocketAddr,
    service: ServiceManager,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let address = reachable(listener);
    let turns = service.supervise("listener", LONGEST_TURN);
    while !stop.is_cancelled() {
        match tokio::time::timeout(ANSWER_WITHIN, answer(address)).await {
            Ok(Ok(())) => turns.turned(),
            Ok(Err(error)) => tracing::warn!(error = %error, "a request of the API to itself failed"),
            Err(_elapsed) => tracing::warn!(limit = ?ANSWER_WITHIN, "the API does not answer itself"),
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
    Ok(())
}

/// A listener on every address is reachable on loopback.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

async fn answer(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(REQUEST).await?;
    let mut status = [0; 12];
    stream.read_exact(&mut status).await?;
    if &status == b"HTTP/1.1 200" { Ok(()) } else { Err(io::Error::other("its status is not 200")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_on_every_address_is_reached_on_loopback() {
        for (listener, address) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
        ] {
            assert_eq!(reachable(listener.parse().unwrap()), address.parse::<SocketAddr>().unwrap());
        }
    }
}
