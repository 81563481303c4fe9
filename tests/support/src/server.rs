//! A PostgreSQL server of one test, for tests that crash it. It is durable, unlike the shared one.
//! A drop removes it.

use std::path::{Path, PathBuf};

use devdb::{Cluster, OpenOptions, StopMode};
use tempfile::TempDir;

use crate::database::{TestDatabase, blocking};

#[derive(Debug)]
pub struct OwnServer {
    cluster: Option<Cluster>,
    folder: TempDir,
}

impl OwnServer {
    /// # Panics
    ///
    /// If the server cannot be created or started.
    pub async fn start() -> Self {
        blocking(|| {
            let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
            let cluster = open(folder.path());
            Self { cluster: Some(cluster), folder }
        })
        .await
    }

    /// A database as [`TestDatabase::installed`], which stays until the server is removed.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub async fn database(&self) -> TestDatabase {
        let Some(cluster) = &self.cluster else { panic!("the server is not running") };
        TestDatabase::on_own_server(cluster.url("postgres")).await
    }

    /// The URL of a superuser, to a database that may be missing.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let Some(cluster) = &self.cluster else { panic!("the server is not running") };
        cluster.url(database)
    }

    /// An existing database, which stays until the server is removed.
    ///
    /// # Panics
    ///
    /// If the server is not running.
    #[must_use]
    pub fn existing(&self, database: &str) -> TestDatabase {
        TestDatabase::reached_by(self.url(database), database)
    }

    /// Crashes the server (`stop -m immediate`), restarts it and waits until it accepts
    /// connections.
    ///
    /// # Panics
    ///
    /// If it does not restart.
    pub async fn crash(&mut self) {
        self.restart(StopMode::Immediate).await;
    }

    /// Stops the server normally (`stop -m fast`), restarts it and waits until it accepts
    /// connections.
    ///
    /// # Panics
    ///
    /// If it does not restart.
    pub async fn restart_in_order(&mut self) {
        self.restart(StopMode::Fast).await;
    }

    async fn restart(&mut self, mode: StopMode) {
        let cluster = self.cluster.take();
        let folder: PathBuf = self.folder.path().to_owned();
        let again = blocking(move || {
            if let Some(cluster) = cluster {
                let stopped = cluster.stop(mode);
                stopped.unwrap_or_else(|error| panic!("cannot stop the server: {error}"));
            }
            open(&folder)
        });
        self.cluster = Some(again.await);
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            // If this fails, the server's guard stops it; a leftover folder is harmless.
            drop(cluster.stop(StopMode::Immediate));
        }
    }
}

fn open(folder: &Path) -> Cluster {
    let options = OpenOptions { max_connections: 100, ..OpenOptions::durable(folder.join("pg")) };
    Cluster::open(options).unwrap_or_else(|error| panic!("cannot start a server: {error}"))
}
