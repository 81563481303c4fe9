//! The real `sched-api`, as a process, and clients of it.
//!
//! Found beside the running program, so both come from one build. It is killed with its handle, also by a panic, and by a guard when the
//! benchmark itself is killed. It knows one key, that of an owner of the benchmark's first tenant.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use test_support::{Process, http, identity};

use crate::sql::Db;

/// How long an API may take to reach its database.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("sched-api");
    ensure!(path.is_file(), "{} is missing; scripts/bench builds it", path.display());
    Ok(path)
}

/// A running API.
pub(super) struct Api {
    process: Process,
    address: SocketAddr,
}

impl Api {
    /// Starts one on a database that has the benchmark's first tenant.
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
            // One key sends everything here.
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

    /// Memory it has resident now, in MiB. Linux only.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<f64>().ok())
            .with_context(|| format!("no VmRSS in {path}"))?;
        Ok(kib / 1024.0)
    }

    /// A client with one connection, which it keeps.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        // The client wants a provider even for what needs no TLS; a second call finds the first one's.
        let (Ok(()) | Err(_)) = rustls::crypto::ring::default_provider().install_default();
        let inner = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build()?;
        Ok(Client { inner, base: format!("http://{}/api/v1", self.address) })
    }

    /// Ends it in order.
    pub(super) async fn stop(mut self) {
        self.process.stop_gracefully(Duration::from_secs(30)).await;
    }
}

/// One client.
pub(super) struct Client {
    inner: reqwest::Client,
    base: String,
}

impl Client {
    /// Reads a resource to the end of its body.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        self.send(self.inner.get(format!("{}{path}", self.base)), path).await
    }

    /// Asks for an action, without a body to speak of.
    pub(super) async fn post(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let request =
            self.inner.post(format!("{}{path}", self.base)).header(CONTENT_TYPE, "application/json");
        self.send(request.body("{}"), path).await
    }

    async fn send(&self, request: reqwest::RequestBuilder, path: &str) -> anyhow::Result<Vec<u8>> {
        let answer = request.header(AUTHORIZATION, identity::bearer()).send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        ensure!(status.is_success(), "{path} answered {status}: {}", String::from_utf8_lossy(&body));
        Ok(body.into())
    }
}
