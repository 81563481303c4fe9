//! Two PostgreSQL servers, of which the second follows the first and takes its place.
//!
//! Both are private, durable and on Unix sockets below one folder, which is the caller's. They end with the value in any case. Nothing here keeps the
//! first server from coming back: it is killed before the second is promoted, and is not started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use devdb::{Cluster, OpenOptions, REPLICATED, Status, StopMode};
use tokio_postgres::Client;

use crate::database::{TestDatabase, connect, migrate};

/// What the second server is called by the first.
const STANDBY: &str = "standby";
/// How long the second server may take to follow.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// A server and one that follows it.
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
    /// Starts the first server in `folder`, with a database that has the whole schema.
    ///
    /// # Errors
    ///
    /// When it cannot be made or started.
    pub async fn start(folder: &Path, database: &str) -> anyhow::Result<Self> {
        let options = options(&folder.join("one"));
        let primary = blocking(move || Cluster::open(options)).await?;
        let (admin, primary_url) = (primary.url("postgres"), primary.url(database));
        sql(&admin).await?.batch_execute(&format!("CREATE DATABASE {database}")).await?;
        migrate(primary_url.clone()).await.map_err(|error| anyhow::anyhow!("cannot migrate: {error}"))?;
        Ok(Self {
            folder: folder.to_owned(),
            primary: Some(primary),
            standby: None,
            primary_url,
            standby_url: String::new(),
            database: database.to_owned(),
        })
    }

    /// Starts the second, which reaches the first through `way`, where that is given; returns when it receives what the first writes.
    ///
    /// # Errors
    ///
    /// When it cannot be made, started, or does not follow in time.
    pub async fn follow(&mut self, way: Option<SocketAddr>) -> anyhow::Result<()> {
        let primary = self.primary.take().context("the first server is gone")?;
        let options = options(&self.folder.join("two"));
        let port = way.map(|way| way.port());
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

    /// From now on nothing is committed that the second server has not written down.
    ///
    /// # Errors
    ///
    /// When the first server refuses, or does not do so in time.
    pub async fn synchronize(&self) -> anyhow::Result<()> {
        let names = format!("ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'");
        let client = sql(&self.primary_url).await?;
        client.batch_execute(&names).await?;
        client.batch_execute("SELECT pg_reload_conf()").await?;
        self.wait(&self.primary_url, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
            .await
    }

    /// The database on the first server.
    pub fn primary_url(&self) -> &str {
        &self.primary_url
    }

    /// The database on the second.
    pub fn standby_url(&self) -> &str {
        &self.standby_url
    }

    /// The database, whichever of the two takes writes.
    ///
    /// # Panics
    ///
    /// When a URL is none of ours.
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

    /// The database as tests use one; it stays until the servers are removed.
    ///
    /// # Panics
    ///
    /// As [`Self::url`].
    pub fn database(&self) -> TestDatabase {
        TestDatabase::reached_by(self.url(), &self.database)
    }

    /// Kills every process of the first server at once, as the end of its machine does.
    ///
    /// # Errors
    ///
    /// When it is gone already, or survives.
    pub async fn kill_primary(&mut self) -> anyhow::Result<()> {
        let mut primary = self.primary.take().context("the first server is gone")?;
        let Status::Ready { pid } = primary.status() else { bail!("the first server is not there") };
        // The first of them first, so that it starts no others.
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let mut command = Command::new("kill");
        command.arg("-9").arg(pid.to_string()).args(children.split_whitespace());
        // One of its processes may have ended meanwhile; that all have is seen below.
        let killed = command.stderr(Stdio::null()).status()?;
        if !killed.success() && matches!(primary.status(), Status::Ready { .. }) {
            bail!("the first server cannot be killed ({killed})");
        }
        blocking(move || primary.stop(StopMode::Immediate)).await
    }

    /// Makes the second server the one that takes writes; returns when it does.
    ///
    /// # Errors
    ///
    /// When it does not in time.
    pub async fn promote(&self) -> anyhow::Result<()> {
        let row = sql(&self.standby_url).await?.query_one("SELECT pg_promote(true, 60)", &[]).await?;
        ensure!(row.get::<_, bool>(0), "the second server is not promoted in time");
        Ok(())
    }

    /// A program of these servers, such as `pg_dump`.
    ///
    /// # Panics
    ///
    /// When there is no second server.
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
            // Its guard ends it otherwise.
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
