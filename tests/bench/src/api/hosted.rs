//! The real `sched-api` as a process, and its clients.
//!
//! The program is beside the running program, so both come from one build. The process is killed
//! when its handle is dropped, and by a guard when the benchmark is killed. Its one key belongs to
//! an owner of the first tenant.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use test_support::{Process, http, identity};
use tokio::net::TcpStream;

use crate::sql::Db;

const START_LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("sched-api");
    ensure!(path.is_file(), "{} is missing; scripts/bench builds it", path.display());
    Ok(path)
}

pub(super) struct Api {
    process: Process,
    address: SocketAddr,
}

impl Api {
    /// Starts an API for the first tenant.
    pub(super) async fn start(db: &Db) -> anyhow::Result<Self> {
        db.install_key().await?;
        db.run(
            "INSERT INTO memberships (tenant_id, user_id, role) SELECT bench.tenant(1), user_id, 'owner' FROM api_keys ON CONFLICT DO NOTHING;
             UPDATE api_keys SET tenant_id = bench.tenant(1)",
        )
        .await?;
        let mut process = Process::at(&program()?)
            .env("DATABASE_URL", db.url())
            .env("LOG_FORMAT", "json")
            .env("HEALTH_PORT", "0")
            .env("API_PORT", "0")
            // All requests use one key.
            .env("API_REQUEST_RATE", "0")
            .start();
        let address = process.addr("api.address").await;
        let ready =
            async || http::get(address, "/health/ready").await.is_ok_and(|answer| answer.status == 200);
        tokio::time::timeout(START_LIMIT, async {
            while !ready().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .context("the API is not ready")?;
        Ok(Self { process, address })
    }

    /// MiB. Linux only.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<f64>().ok())
            .with_context(|| format!("no VmRSS in {path}"))?;
        Ok(kib / 1024.0)
    }

    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(self.address).await.context("failed to connect to the API")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Client { sender, connection, host: self.address.to_string() })
    }

    pub(super) async fn stop(mut self) {
        self.process.stop_gracefully(Duration::from_secs(30)).await;
    }
}

/// A client with one connection. The task that sends the request also drives the connection, so no
/// other thread is woken, as in pgbench.
pub(super) struct Client {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<TokioIo<TcpStream>, Full<Bytes>>,
    host: String,
}

impl Client {
    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.send(Method::GET, path, "").await
    }

    /// The body is an empty object.
    pub(super) async fn post(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.send(Method::POST, path, "{}").await
    }

    async fn send(&mut self, method: Method, path: &str, body: &'static str) -> anyhow::Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(HOST, &self.host)
            .header(AUTHORIZATION, identity::bearer())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))?;
        let Self { sender, connection, .. } = self;
        let exchange = async {
            sender.ready().await?;
            let (head, body) = sender.send_request(request).await?.into_parts();
            anyhow::Ok((head.status, body.collect().await?.to_bytes()))
        };
        let (status, body) = tokio::select! {
            biased;
            answered = exchange => answered?,
            ended = connection => bail!("the API closed the connection: {ended:?}"),
        };
        ensure!(status.is_success(), "{path} answered {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}
