//! The private PostgreSQL of `dev`.
//!
//! Starting and stopping block, so they run off the async threads. A server that dies while we run is started again on
//! its data; the daemons wait for it meanwhile, as they do for any database.

use std::path::{Path, PathBuf};

use devdb::{Cluster, DevDbError, OpenOptions, Status, StopMode};
use sched_runtime::exit::ExitError;
use tokio::task::JoinHandle;

use crate::failure::{database, failure};

/// Name of the database in the private server.
const DATABASE: &str = "sched";

/// A server that is being started.
type Starting = JoinHandle<Result<Cluster, DevDbError>>;

/// The server.
#[derive(Debug)]
pub(super) struct Postgres {
    dir: PathBuf,
    /// Kept here and not in a future that may be dropped: what has been begun must be stopped.
    starting: Option<Starting>,
    cluster: Option<Cluster>,
    url: String,
}

impl Postgres {
    /// The server with its data in `dir`; not started yet.
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), starting: None, cluster: None, url: String::new() }
    }

    /// Starts the server, making its data when there is none.
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

    /// URL of the database; empty before the first start.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Variables from which the PostgreSQL programs know where to connect; see the example jobs.
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

    /// Whether the server has gone although nobody stopped it.
    pub(super) fn has_died(&mut self) -> bool {
        self.cluster.as_mut().is_none_or(|cluster| matches!(cluster.status(), Status::Gone(_)))
    }

    /// Whether there is anything to stop.
    pub(super) fn is_up(&self) -> bool {
        self.cluster.is_some() || self.starting.is_some()
    }

    /// Starts the server again after it has died.
    pub(super) async fn restart(&mut self) -> Result<(), ExitError> {
        if let Some(dead) = self.cluster.take() {
            // It is dead: what matters is whether the next one starts.
            let _ = stop(dead, StopMode::Immediate).await;
        }
        self.start().await
    }

    /// Stops the server, at once or in order.
    pub(super) async fn stop(mut self, mode: StopMode) -> Result<(), ExitError> {
        if let Some(starting) = self.starting.take() {
            // One that failed to start need not be stopped, and why it failed was told to whoever started it.
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

/// Folder of the socket and port that a URL of `devdb` names.
fn socket_of(url: &str) -> (String, String) {
    let authority = url.split_once('@').map_or(url, |(_, rest)| rest);
    let authority = authority.split_once('/').map_or(authority, |(authority, _)| authority);
    let (host, port) = authority.split_once(':').unwrap_or((authority, "5432"));
    // The host is percent-encoded; a form's value is read by the same rule, and a plus never stands in it.
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
