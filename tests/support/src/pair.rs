//! Two PostgreSQL servers: the second is the standby of the first and replaces it.
//!
//! Both are private, durable and on Unix sockets in the caller's folder. A drop stops them. There
//! is no fencing: the first server is killed before the promotion of the second and never started
//! again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use devdb::{Cluster, OpenOptions, REPLICATED, Status, StopMode};
use tokio_postgres::Client;

use crate::database::{TestDatabase, connect, install};

const STANDBY: &str = "standby";
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Pair {
    folder: PathBuf,
    primary: Option<Cluster>,
    standby: Option<Cluster>,
    primary_url: String,
    standby_url: String,
    database: String,
}

impl Pair {
    /// Starts the first server in `folder`, with a database as [`TestDatabase::installed`].
    ///
    /// # Errors
    ///
    /// If the server cannot be created or started.
    pub async fn start(folder: &Path, database: &str) -> anyhow::Result<Self> {
        let options = options(&folder.join("one"));
        let primary = blocking(move || Cluster::open(options)).await?;
        let (admin, primary_url) = (primary.url("postgres"), primary.url(database));
        let installed = install(&admin, database).await;
        installed.map_err(|error| anyhow::anyhow!("cannot install: {error}"))?;
        Ok(Self {
            folder: folder.to_owned(),
            primary: Some(primary),
            standby: None,
            primary_url,
            standby_url: String::new(),
            database: database.to_owned(),
        })
    }

    /// Starts the second server and waits until it receives the WAL of the first, through `way` if
    /// given.
    ///
    /// # Errors
    ///
    /// When the server cannot be created or started, or does not follow in time.
    pub async fn follow(&mut self, proxy: Option<SocketAddr>) -> anyhow::Result<()> {
        let primary = self.primary.take().context("the first server is gone")?;
        let options = options(&self.folder.join("two"));
        let port = proxy.map(|proxy| proxy.port());
        let (primary, standby) = tokio::task::spawn_blocking(move || {
            let standby = primary.follow(options, STANDBY, port);
            (primary, standby)
        })
        .await?;
        self.primary = Some(primary);
        let standby = standby.context("no second server")?;
        self.standby_url = standby.url(&self.database);
        self.standby = Some(standby);
        self.wait(&self.primary_url, "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
            .await
    }

    /// From then on, the first server commits only what the second has written.
    ///
    /// # Errors
    ///
    /// If the first server rejects the setting, or does not switch in time.
    pub async fn synchronize(&self) -> anyhow::Result<()> {
        let names = format!("ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'");
        let client = sql(&self.primary_url).await?;
        client.batch_execute(&names).await?;
        client.batch_execute("SELECT pg_reload_conf()").await?;
        self.wait(&self.primary_url, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
            .await
    }

    pub fn primary_url(&self) -> &str {
        &self.primary_url
    }

    pub fn standby_url(&self) -> &str {
        &self.standby_url
    }

    /// The URL of both servers; it selects the one that accepts writes.
    ///
    /// # Panics
    ///
    /// If a URL has an unexpected form.
    pub fn url(&self) -> String {
        let host = |url: &str| {
            let host = url.split_once('@').and_then(|(_, rest)| rest.split('/').next());
            host.unwrap_or_else(|| panic!("no server in {url}")).to_owned()
        };
        format!(
            "postgresql://postgres@{},{}/{}",
            host(&self.primary_url),
            host(&self.standby_url),
            self.database
        )
    }

    /// The database, which stays until the servers are removed.
    ///
    /// # Panics
    ///
    /// As [`Self::url`].
    pub fn database(&self) -> TestDatabase {
        TestDatabase::reached_by(self.url(), &self.database)
    }

    /// Kills every process of the first server at once, like a crash of its machine.
    ///
    /// # Errors
    ///
    /// If the server has ended already, or survives.
    pub async fn kill_primary(&mut self) -> anyhow::Result<()> {
        let mut primary = self.primary.take().context("the first server is gone")?;
        let Status::Ready { pid } = primary.status() else { bail!("the first server is not there") };
        // The postmaster is first, so that it starts no other process.
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let mut command = Command::new("kill");
        command.arg("-9").arg(pid.to_string()).args(children.split_whitespace());
        // A process may have ended; the check below covers all.
        let killed = command.stderr(Stdio::null()).status()?;
        if !killed.success() && matches!(primary.status(), Status::Ready { .. }) {
            bail!("the first server cannot be killed ({killed})");
        }
        blocking(move || primary.stop(StopMode::Immediate)).await
    }

    /// Promotes the second server and waits until it accepts writes.
    ///
    /// # Errors
    ///
    /// If it does not accept writes in time.
    pub async fn promote(&self) -> anyhow::Result<()> {
        let row = sql(&self.standby_url).await?.query_one("SELECT pg_promote(true, 60)", &[]).await?;
        ensure!(row.get::<_, bool>(0), "the second server is not promoted in time");
        Ok(())
    }

    /// Path of a server program such as `pg_dump`.
    ///
    /// # Panics
    ///
    /// If there is no second server.
    pub fn program(&self, name: &str) -> PathBuf {
        let Some(standby) = &self.standby else { panic!("there is no second server") };
        standby.bin(name)
    }

    async fn wait(&self, url: &str, question: &str) -> anyhow::Result<()> {
        let client = sql(url).await?;
        for _ in 0..LIMIT.as_millis() / LOOK.as_millis() {
            if client.query_one(question, &[]).await?.get(0) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("the second server does not follow: {question}")
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for cluster in [self.primary.take(), self.standby.take()].into_iter().flatten() {
            // If this fails, the server's guard stops it.
            drop(cluster.stop(StopMode::Immediate));
        }
    }
}

fn options(dir: &Path) -> OpenOptions {
    let settings = REPLICATED.iter().map(ToString::to_string).collect();
    OpenOptions { settings, ..OpenOptions::durable(dir) }
}

async fn sql(url: &str) -> anyhow::Result<Client> {
    connect(url).await.map_err(|error| anyhow::anyhow!("cannot connect: {error}"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, devdb::DevDbError> + Send + 'static,
) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await??)
}
