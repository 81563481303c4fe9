//! Requests per second in 50 slots, against the same worker's drain of native runs and a bare loop
//! of the same client.
//!
//! The standard worker drains dispatches that post their arguments to an echo server on loopback.
//! The bare loop posts as many bodies of the same size through one reqwest client, the HTTP
//! implementation of the worker, with 50 concurrent requests. Both keep connections. The drain has
//! the same number of slots and no requests. Repetitions alternate.
//!
//! On the same processors, a drain at `d` per second and a client at `c` per second can do at most
//! `1 / (1/d + 1/c)` per second together. This is the reference.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::backlog::{self, Earlier, Function, set_function};
use super::hosted::Program;
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;

const SLOTS: usize = 50;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let count = bench.scale.pick(30_000, 3_000);
    let (echo, address) = serve_echo().await?;
    let db = bench.workspace.database().await?;
    let config = json!({"url": format!("http://{address}/")}).to_string();
    backlog::prepare(&db, Function { handler_type: "http", config: &config }).await?;
    let slots = SLOTS.to_string();
    let settings = [("WORKER_CONCURRENCY", slots.as_str()), ("WORKER_HTTP_ALLOW", "127.0.0.1/32")];
    let (mut ours, mut bare, mut drains) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.scale.pick(5, 1) {
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        ours.push(backlog::drain(&db, count, Program::Standard, &settings).await?);
        bare.push(loop_bare(address, count).await?);
        set_function(&db, Function::NOOP).await?;
        backlog::fill_with(&db, count, Earlier::Nothing).await?;
        drains.push(backlog::drain(&db, count, Program::Native, &settings).await?);
        set_function(&db, Function { handler_type: "http", config: &config }).await?;
    }
    drop(echo);
    let (drain, client) = (median(&drains), median(&bare));
    let reference = Reference::value(
        "the drain and the bare client of the same run, one after the other",
        both(drain, client),
    );
    let figure = Figure::new("http", "1/s", &ours, Goal { reference, bar: Bar::RatioAtLeast(0.5) })
        .also("drain of native runs, same slots", drain, "1/s")
        .also("reqwest on the same hyper, 50 at once", client, "1/s");
    Ok(vec![figure])
}

/// Rate of two works that each operation needs, one after the other.
fn both(one: f64, other: f64) -> f64 {
    1.0 / (1.0 / one + 1.0 / other)
}

async fn loop_bare(address: SocketAddr, count: usize) -> anyhow::Result<f64> {
    // The client needs a provider even without TLS; a second call fails and changes nothing.
    let (Ok(()) | Err(_)) = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("http://{address}/");
    let left = AtomicUsize::new(count);
    let started = sched_runtime::monotonic_clock::monotonic();
    try_join_all((0..SLOTS).map(|_| async {
        while let Ok(n) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        {
            let answer = client.post(&url).json(&json!({"n": n})).send().await?;
            ensure!(answer.status().is_success(), "the echo answered {}", answer.status());
            answer.bytes().await?;
        }
        Ok(())
    }))
    .await?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

async fn serve_echo() -> anyhow::Result<(OwnedTask<()>, SocketAddr)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("failed to open a port")?;
    let address = listener.local_addr()?;
    let serving = spawn_owned("echo", async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(echo(stream));
        }
    });
    Ok((serving, address))
}

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        let request = match whole_request(&received) {
            Some(request) => request,
            None => {
                if stream.read_buf(&mut received).await? == 0 {
                    return Ok(());
                }
                continue;
            }
        };
        let body: Vec<u8> = received.drain(..request.0 + request.1).skip(request.0).collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).await?;
    }
}

fn whole_request(received: &[u8]) -> Option<(usize, usize)> {
    let head = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(received.get(..head)?).to_ascii_lowercase();
    let body = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())
        .unwrap_or(0);
    (received.len() >= head + body).then_some((head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_in_sequence_add_their_times() {
        assert!((both(20_000.0, 60_000.0) - 15_000.0).abs() < 1e-6);
    }

    #[test]
    fn request_is_complete_with_its_body() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET";
        assert_eq!(whole_request(request), Some((38, 2)));
        assert_eq!(whole_request(&request[..39]), None);
        assert_eq!(whole_request(b"GET / HTTP/1.1\r\n\r\n"), Some((18, 0)));
    }
}
