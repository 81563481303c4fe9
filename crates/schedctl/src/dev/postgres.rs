//! The private PostgreSQL of `dev`. Starting and stopping block, so they run outside the async
//! threads.

use std::path::{Path, PathBuf};

use devdb::{Cluster, DevDbError, OpenOptions, Status, StopMode};
use sched_runtime::exit::ExitError;
use tokio::task::JoinHandle;

use crate::failure::{database, failure};

const DATABASE: &str = "sched";

type Starting = JoinHandle<Result<Cluster, DevDbError>>;

#[derive(Debug)]
pub(super) struct Postgres {
    dir: PathBuf,
    /// Not in a future that may be dropped: a started server must be stopped.
    starting: Option<Starting>,
    cluster: Option<Cluster>,
    url: String,
}

impl Postgres {
    /// Not started yet.
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), starting: None, cluster: None, url: String::new() }
    }

    /// Creates the data if there is none.
    pub(super) async fn start(&mut self) -> Result<(), ExitError> {
        let dir = self.dir.clone();
        let work = move || {
            let cluster = Cluster::open(OpenOptions::durable(dir))?;
            cluster.create_database(DATABASE)?;
            Ok(cluster)
        };
        let starting = self.starting.insert(tokio::task::spawn_blocking(work));
        let started = starting.await;
        self.starting = None;
        let cluster = started.map_err(failure)?.map_err(database)?;
        self.url = cluster.url(DATABASE);
        self.cluster = Some(cluster);
        Ok(())
    }

    /// Empty before the first start.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn client_variables(&self) -> Vec<(String, String)> {
        let Some(cluster) = &self.cluster else { return Vec::new() };
        let (host, port) = socket_of(&self.url);
        [
            ("PGHOST", host),
            ("PGPORT", port),
            ("PGUSER", "postgres".to_owned()),
            ("PGDATABASE", DATABASE.to_owned()),
            ("PG_BIN_DIR", cluster.server().dir().display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    pub(super) fn has_died(&mut self) -> bool {
        self.cluster.as_mut().is_none_or(|cluster| matches!(cluster.status(), Status::Gone(_)))
    }

    pub(super) fn is_up(&self) -> bool {
        self.cluster.is_some() || self.starting.is_some()
    }

    pub(super) async fn restart(&mut self) -> Result<(), ExitError> {
        if let Some(dead) = self.cluster.take() {
            // It is dead already.
            let _ = stop(dead, StopMode::Immediate).await;
        }
        self.start().await
    }

    pub(super) async fn stop(mut self, mode: StopMode) -> Result<(), ExitError> {
        if let Some(starting) = self.starting.take() {
            // The error of a failed start was already returned.
            self.cluster = starting.await.ok().and_then(Result::ok);
        }
        match self.cluster.take() {
            Some(cluster) => stop(cluster, mode).await,
            None => Ok(()),
        }
    }
}

async fn stop(cluster: Cluster, mode: StopMode) -> Result<(), ExitError> {
    let stopped = tokio::task::spawn_blocking(move || cluster.stop(mode)).await;
    stopped.map_err(failure)?.map_err(failure)
}

fn socket_of(url: &str) -> (String, String) {
    let authority = url.split_once('@').map_or(url, |(_, rest)| rest);
    let authority = authority.split_once('/').map_or(authority, |(authority, _)| authority);
    let (host, port) = authority.split_once(':').unwrap_or((authority, "5432"));
    // The host is percent-encoded like a form value, except for a plus, which never occurs.
    let pair = format!("host={host}");
    let host = url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned());
    (host.unwrap_or_default(), port.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_read_from_the_url() {
        for (url, host, port) in [
            ("postgresql://postgres@%2Ftmp%2Fa%20b%2Fpg%2Frun/sched", "/tmp/a b/pg/run", "5432"),
            ("postgresql://postgres@%2Fx%2By:6000/sched", "/x+y", "6000"),
        ] {
            assert_eq!(socket_of(url), (host.to_owned(), port.to_owned()));
        }
    }
}
