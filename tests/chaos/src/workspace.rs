//! The folder of a run, its PostgreSQL server, and the faults of that server.
//!
//! The server is private, durable, and on a Unix socket. Where mounting is allowed, its data is on
//! a small tmpfs disk that can be filled. The server ends with its owner (`devdb`). A successful
//! run removes the folder; otherwise the next run does.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use devdb::{Cluster, OpenOptions, Status, StopMode};
use test_support::Client;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::fault_proxy;

pub(crate) const DATABASE: &str = "sched";
const DISK: &str = "size=640m,mode=0755";
/// The WAL is small, so that segments are reused and a full disk is noticed. Autovacuum runs within
/// a run.
pub(crate) const BUSY: [&str; 4] =
    ["min_wal_size=32MB", "max_wal_size=96MB", "autovacuum_naptime=10s", "shared_buffers=64MB"];

#[derive(Debug)]
pub(crate) struct Workspace {
    folder: PathBuf,
    disk: PathBuf,
    /// Whether the disk can be filled without harm to other programs.
    pub(crate) has_own_disk: bool,
    url: String,
    settings: &'static [&'static str],
    cluster: Mutex<Option<Cluster>>,
    _lock: File,
}

impl Workspace {
    /// Creates a folder with a database as documented ([`TestDatabase::installed`]), on its own disk
    /// if mounting is allowed.
    ///
    /// [`TestDatabase::installed`]: test_support::TestDatabase::installed
    pub(crate) async fn open(
        into: &Path,
        may_mount: bool,
        settings: &'static [&'static str],
    ) -> anyhow::Result<Self> {
        let workspace = Self::start_server(into, may_mount, settings).await?;
        let installed = test_support::install(&workspace.admin().await?, DATABASE).await;
        installed.map_err(|error| anyhow::anyhow!("failed to install: {error}"))?;
        Ok(workspace)
    }

    /// Like [`Self::open`], without a schema, and owned by the superuser.
    pub(crate) async fn open_empty(
        into: &Path,
        may_mount: bool,
        settings: &'static [&'static str],
    ) -> anyhow::Result<Self> {
        let workspace = Self::start_server(into, may_mount, settings).await?;
        let create = format!("CREATE DATABASE {DATABASE}");
        fault_proxy::connect(&workspace.admin().await?).await?.batch_execute(&create).await?;
        Ok(workspace)
    }

    /// The URL of the database `postgres`.
    async fn admin(&self) -> anyhow::Result<String> {
        let cluster = self.cluster.lock().await;
        Ok(cluster.as_ref().context("the server was stopped")?.url("postgres"))
    }

    async fn start_server(
        into: &Path,
        may_mount: bool,
        settings: &'static [&'static str],
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(into).with_context(|| format!("failed to create {}", into.display()))?;
        let into = into.canonicalize()?;
        let lock = File::create(into.join("lock"))?;
        if lock.try_lock().is_err() {
            bail!("another run is in progress in {}", into.display());
        }
        let folder = into.join("run");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("failed to remove {}", folder.display()))?;
        }
        let disk = folder.join("disk");
        fs::create_dir_all(&disk)?;
        fs::create_dir_all(folder.join("logs"))?;
        let has_own_disk = may_mount && mount(&disk);
        let options = options(&disk, settings);
        let cluster =
            spawn_blocking(move || Cluster::open(options)).await?.context("failed to start PostgreSQL")?;
        let url = cluster.url(DATABASE);
        Ok(Self {
            folder,
            disk,
            has_own_disk,
            url,
            settings,
            cluster: Mutex::new(Some(cluster)),
            _lock: lock,
        })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn socket(&self) -> anyhow::Result<PathBuf> {
        let socket = test_support::socket_of(&self.url);
        socket.with_context(|| format!("{} names no Unix socket", self.url))
    }

    /// Fails while the database is down.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        fault_proxy::connect(&self.url).await
    }

    /// Stops the server and starts it after `pause`; returns whether it was running.
    pub(crate) async fn restart(&self, mode: StopMode, pause: Duration) -> anyhow::Result<bool> {
        let mut workspace = self.cluster.lock().await;
        let ran = workspace.as_mut().is_some_and(|cluster| !matches!(cluster.status(), Status::Gone(_)));
        if let Some(cluster) = workspace.take() {
            spawn_blocking(move || cluster.stop(mode)).await?.context("failed to stop PostgreSQL")?;
        }
        tokio::time::sleep(pause).await;
        self.start(&mut workspace).await?;
        Ok(ran)
    }

    async fn start(&self, workspace: &mut Option<Cluster>) -> anyhow::Result<()> {
        let mut last = None;
        // The server cannot start until another task has emptied the disk.
        for _ in 0..60 {
            let options = options(&self.disk, self.settings);
            match spawn_blocking(move || Cluster::open(options)).await? {
                Ok(cluster) => {
                    *workspace = Some(cluster);
                    return Ok(());
                }
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        match last {
            Some(error) => Err(error).context("PostgreSQL does not start again"),
            None => Ok(()),
        }
    }

    /// Fills the disk, empties it after `lasts`, and starts the server if necessary. Returns
    /// whether the disk was full.
    pub(crate) async fn fill(&self, lasts: Duration) -> anyhow::Result<bool> {
        let filler = self.disk.join("filler");
        let path = filler.clone();
        let is_full = spawn_blocking(move || -> std::io::Result<bool> {
            let mut file = File::create(path)?;
            let megabyte = vec![1_u8; 1 << 20];
            loop {
                // Until the disk is full.
                if let Err(error) = file.write_all(&megabyte) {
                    return Ok(error.kind() == std::io::ErrorKind::StorageFull);
                }
            }
        })
        .await??;
        tokio::time::sleep(lasts).await;
        fs::remove_file(&filler)?;
        self.revive().await?;
        Ok(is_full)
    }

    pub(crate) async fn revive(&self) -> anyhow::Result<()> {
        let mut workspace = self.cluster.lock().await;
        let is_gone = workspace.as_mut().is_none_or(|cluster| matches!(cluster.status(), Status::Gone(_)));
        if is_gone {
            drop(workspace.take());
            self.start(&mut workspace).await?;
        }
        Ok(())
    }

    /// Dumps the database for the analysis of a failure.
    pub(crate) async fn dump(&self) -> anyhow::Result<()> {
        let workspace = self.cluster.lock().await;
        let cluster = workspace.as_ref().context("the server was stopped")?;
        let mut command = Command::new(cluster.bin("pg_dump"));
        command.arg("--file").arg(self.file("database.sql")).arg("--dbname").arg(&self.url);
        let status = spawn_blocking(move || command.status()).await?.context("failed to run pg_dump")?;
        if !status.success() {
            bail!("pg_dump failed ({status})");
        }
        Ok(())
    }

    /// Restores a dump into a separate database. The roles are those of the migrated database on
    /// the same server.
    pub(crate) async fn restore(&self, dump: &Path) -> anyhow::Result<Client> {
        let workspace = self.cluster.lock().await;
        let cluster = workspace.as_ref().context("the server was stopped")?;
        let url = cluster.url("restored");
        fault_proxy::connect(&cluster.url("postgres"))
            .await?
            .batch_execute("CREATE DATABASE restored")
            .await?;
        let mut command = Command::new(cluster.bin("psql"));
        command.args(["--quiet", "--no-psqlrc", "--output", "/dev/null", "--set", "ON_ERROR_STOP=1"]);
        command.arg("--file").arg(dump).arg("--dbname").arg(&url);
        let status = spawn_blocking(move || command.status()).await?.context("failed to run psql")?;
        ensure!(status.success(), "{} cannot be restored ({status})", dump.display());
        fault_proxy::connect(&url).await
    }

    pub(crate) async fn close(self, is_kept: bool) -> anyhow::Result<()> {
        if let Some(cluster) = self.cluster.lock().await.take() {
            spawn_blocking(move || cluster.stop(StopMode::Immediate)).await??;
        }
        if self.has_own_disk
            && !Command::new("umount").arg(&self.disk).status().is_ok_and(|status| status.success())
        {
            bail!("failed to unmount {}", self.disk.display());
        }
        if is_kept {
            return Ok(());
        }
        fs::remove_dir_all(&self.folder)
            .with_context(|| format!("failed to remove {}", self.folder.display()))
    }
}

/// Closes the workspace once no task uses it.
pub(crate) async fn leave(workspace: Arc<Workspace>, is_kept: bool) -> anyhow::Result<()> {
    // An aborted task releases it when it is scheduled next.
    for _ in 0..100 {
        if Arc::strong_count(&workspace) == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let workspace = Arc::into_inner(workspace).context("the folder is still in use")?;
    workspace.close(is_kept).await
}

fn options(disk: &Path, settings: &[&str]) -> OpenOptions {
    // The witness needs the commit time of a switch.
    let settings = settings.iter().chain(&["track_commit_timestamp=on"]).map(ToString::to_string).collect();
    OpenOptions { settings, ..OpenOptions::durable(disk.join("pg")) }
}

fn mount(disk: &Path) -> bool {
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "chaos"]).arg(disk).status();
    mounted.is_ok_and(|status| status.success())
}
