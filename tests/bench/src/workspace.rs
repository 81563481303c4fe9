//! The server of all measurements: private, durable, on loopback.
//!
//! Every run creates the data beside the results and removes it. A killed run leaves the folder,
//! which the next run removes. The server ends with its owner (see `devdb`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use devdb::{Cluster, OpenOptions, StopMode};
use sched_model::{Database, DatabaseSettings, connection::migrations};

use crate::sql::{Db, Polling};

const TEMPLATE: &str = "bench_template";
const NAMES: [&str; 2] = ["bench", "bench_second"];
const PEER: &str = "bench_peer";

/// Settings for sched, pgbench and the peers. The memory is that of the published peer results. The
/// others are commit timestamps, and PostgreSQL defaults in place of the small sizes of devdb.
const SETTINGS: [&str; 4] =
    ["shared_buffers=1GB", "wal_level=replica", "max_wal_size=1GB", "track_commit_timestamp=on"];

pub(crate) struct Workspace {
    pub(crate) settings: Vec<String>,
    cluster: Option<Cluster>,
    folder: PathBuf,
    /// Connection to the database `postgres`: its queries do not count in the measured database.
    pub(crate) admin: Db,
    _lock: File,
}

impl Workspace {
    /// Starts a server and creates the migrated template. `more` are settings besides [`SETTINGS`].
    pub(crate) async fn open(into: &Path, more: &[&str]) -> anyhow::Result<Self> {
        fs::create_dir_all(into).with_context(|| format!("failed to create {}", into.display()))?;
        let lock = File::create(into.join("lock")).context("failed to create the lock file")?;
        if lock.try_lock().is_err() {
            bail!("another benchmark is running in {}", into.display());
        }
        let folder = into.join("postgres");
        remove(&folder)?;
        let settings: Vec<String> = SETTINGS.iter().chain(more).map(ToString::to_string).collect();
        let options = OpenOptions {
            loopback_port: Some(0),
            settings: settings.clone(),
            ..OpenOptions::durable(&folder)
        };
        let cluster = Cluster::open(options).context("failed to start PostgreSQL")?;
        let admin = Db::connect(&url_of(&cluster, "postgres")?).await?;
        let workspace = Self { settings, cluster: Some(cluster), folder, admin, _lock: lock };
        workspace.make_template().await?;
        Ok(workspace)
    }

    async fn make_template(&self) -> anyhow::Result<()> {
        self.admin.run(&format!("CREATE DATABASE {TEMPLATE}")).await?;
        let url = url_of(self.cluster()?, TEMPLATE)?;
        let database = Database::new(&DatabaseSettings::new(&url, "bench"))?;
        migrations::up(&database).await.context("failed to migrate")?;
        database.close();
        let db = Db::connect(&url).await?;
        db.run(include_str!("../sql/setup.sql")).await
    }

    /// Creates a database with the schema and the additions of the benchmark; removes all earlier
    /// ones.
    pub(crate) async fn database(&self) -> anyhow::Result<Db> {
        // No work of an earlier row, such as autovacuum, may run during the next.
        for name in NAMES {
            self.admin.run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
        }
        self.create(NAMES[0]).await
    }

    pub(crate) async fn second_database(&self) -> anyhow::Result<Db> {
        self.create(NAMES[1]).await
    }

    pub(crate) async fn empty_database(&self) -> anyhow::Result<String> {
        self.admin.run(&format!("DROP DATABASE IF EXISTS {PEER} WITH (FORCE)")).await?;
        self.admin.run(&format!("CREATE DATABASE {PEER}")).await?;
        self.admin.run("CHECKPOINT").await?;
        url_of(self.cluster()?, PEER)
    }

    async fn create(&self, name: &str) -> anyhow::Result<Db> {
        // The sessions that created the template may end late.
        let quiet = format!("SELECT (count(*) = 0)::int FROM pg_stat_activity WHERE datname = '{TEMPLATE}'");
        self.admin
            .wait_count(
                &quiet,
                1,
                Polling { step: Duration::from_millis(20), limit: Duration::from_secs(10) },
            )
            .await?;
        self.admin.run(&format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}")).await?;
        Db::connect(&url_of(self.cluster()?, name)?).await
    }

    /// Switches autovacuum on, or prevents new autovacuum work. Running work continues.
    pub(crate) async fn set_autovacuum(&self, is_on: bool) -> anyhow::Result<()> {
        let set = if is_on { "RESET autovacuum" } else { "SET autovacuum = off" };
        self.admin.run(&format!("ALTER SYSTEM {set}")).await?;
        self.admin.run("SELECT pg_reload_conf()").await
    }

    pub(crate) fn postmaster(&self) -> anyhow::Result<i32> {
        let path = self.cluster()?.dir().join("data/postmaster.pid");
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        text.lines()
            .next()
            .and_then(|line| line.trim().parse().ok())
            .context("no process id in postmaster.pid")
    }

    pub(crate) fn bin(&self, program: &str) -> anyhow::Result<PathBuf> {
        Ok(self.cluster()?.bin(program))
    }

    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        if let Some(cluster) = self.cluster.take() {
            cluster.stop(StopMode::Immediate).context("failed to stop PostgreSQL")?;
        }
        remove(&self.folder)
    }

    fn cluster(&self) -> anyhow::Result<&Cluster> {
        self.cluster.as_ref().context("the server was stopped")
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    }
    Ok(())
}

fn url_of(cluster: &Cluster, database: &str) -> anyhow::Result<String> {
    cluster.loopback_url(database)?.context("the server does not listen on loopback")
}
