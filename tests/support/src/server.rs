//! A PostgreSQL server of one test, for tests that crash it.
//!
//! Unlike the shared one it is durable: what was committed must be there after a crash. It takes about three seconds to make and is
//! removed with its value.

use std::path::{Path, PathBuf};

use devdb::{Cluster, OpenOptions, StopMode};
use tempfile::TempDir;

use crate::database::{TestDatabase, blocking};

/// A server that one test has for itself.
#[derive(Debug)]
pub struct OwnServer {
    cluster: Option<Cluster>,
    folder: TempDir,
}

impl OwnServer {
    /// Makes and starts one.
    ///
    /// # Panics
    ///
    /// When it cannot be made or started.
    pub async fn start() -> Self {
        blocking(|| {
            let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
            let cluster = open(folder.path());
            Self { cluster: Some(cluster), folder }
        })
        .await
    }

    /// A migrated database on it. It stays until the server is removed.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn database(&self) -> TestDatabase {
        let Some(cluster) = &self.cluster else { panic!("the server is not running") };
        TestDatabase::on_own_server(cluster.url("postgres")).await
    }

    /// Crashes the server (`stop -m immediate`) and starts it again; returns when it takes connections.
    ///
    /// # Panics
    ///
    /// When it does not come back.
    pub async fn crash(&mut self) {
        self.restart(StopMode::Immediate).await;
    }

    /// Stops the server in order, cutting its sessions off (`stop -m fast`), and starts it again; returns when it takes connections.
    ///
    /// # Panics
    ///
    /// When it does not come back.
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
            // Its guard ends it otherwise, and the folder for temporary files is nobody's treasure.
            drop(cluster.stop(StopMode::Immediate));
        }
    }
}

fn open(folder: &Path) -> Cluster {
    let options = OpenOptions { max_connections: 100, ..OpenOptions::durable(folder.join("pg")) };
    Cluster::open(options).unwrap_or_else(|error| panic!("cannot start a server: {error}"))
}
