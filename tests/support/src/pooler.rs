//! pgbouncer between a daemon and its database.
//!
//! It listens on a free port of loopback and connects to the Unix socket of the test server through
//! a [`Proxy`]. For root, it runs as the user `nobody`, because it rejects root. A drop ends it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::{Launch, Process, Proxy, free_port, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);
/// The server trusts its socket, so no login has a password.
const USERS: &str = "\"postgres\" \"\"\n\"sched\" \"\"\n\"sched_web\" \"\"\n\"sched_work\" \"\"\n";

#[derive(Debug)]
pub struct Pooler {
    url: String,
    at: SocketAddr,
    launch: Launch,
    process: Process,
    _proxy: Proxy,
    _folder: TempDir,
}

impl Pooler {
    /// Starts a pooler for the database at `url`, in `session`, `transaction` or `statement` mode.
    ///
    /// # Panics
    ///
    /// If it cannot be started, for example because pgbouncer is not installed.
    pub async fn before(url: &str, mode: &str) -> Self {
        let program = ["/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
            .into_iter()
            .map(Path::new)
            .find(|path| path.exists())
            .unwrap_or_else(|| panic!("pgbouncer is not installed; scripts/test installs it"));
        let proxy = Proxy::before(url).await;
        let port = free_port().unwrap_or_else(|error| panic!("no port for pgbouncer: {error}"));
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder for pgbouncer: {error}"));
        let users = folder.path().join("users.txt");
        let (settings, at, database) = settings(proxy.url(), &users, (port, mode));
        let file = folder.path().join("pgbouncer.ini");
        let written = fs::write(&file, settings)
            .and_then(|()| fs::write(&users, USERS))
            .and_then(|()| fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)));
        written.unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        let launch = Process::at(program);
        let launch = if nix::unistd::geteuid().is_root() { launch.args(["-u", "nobody"]) } else { launch };
        let launch = launch.arg(&file);
        let process = listening(launch.clone().start(), at).await;
        let url = format!("postgresql://postgres@{at}/{database}");
        Self { url, at, launch, process, _proxy: proxy, _folder: folder }
    }

    /// Ends the pooler with its connections, and restarts it after `pause` at the same address.
    ///
    /// # Panics
    ///
    /// If it does not listen again.
    pub async fn restart(&mut self, pause: Duration) {
        self.process.kill9().await;
        tokio::time::sleep(pause).await;
        self.process = listening(self.launch.clone().start(), self.at).await;
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

async fn listening(mut process: Process, at: SocketAddr) -> Process {
    wait_for("pgbouncer listens", PATIENCE, async || {
        if let Some(status) = process.exited() {
            return Err(format!("it ended ({status}): {}", process.stderr()));
        }
        TcpStream::connect(at).map(drop).map_err(|error| format!("{error}: {}", process.stderr()))
    })
    .await;
    process
}

fn settings(url: &str, users: &Path, (port, mode): (u16, &str)) -> (String, SocketAddr, String) {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let server: tokio_postgres::Config = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
    let server_port = server.get_ports().first().copied().unwrap_or_default();
    let name = server.get_dbname().unwrap_or_default().to_owned();
    let settings = format!(
        "[databases]\n{name} = host=127.0.0.1 port={server_port} dbname={name}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n\
         pool_mode = {mode}\ndefault_pool_size = 60\nmax_client_conn = 200\nserver_login_retry = 1\n",
        users = users.display()
    );
    (settings, at, name)
}
