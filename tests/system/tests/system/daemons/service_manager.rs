//! The daemons under a service manager: ready, at work, stopped. The test is the service manager.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use system_tests::{Installation, PATIENCE};
use test_support::{Process, wait_for};

struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    received: Vec<String>,
}

impl Manager {
    fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, path, received: Vec::new() }
    }

    /// Three seconds without a message would end the daemon.
    fn settings(&self) -> [(&str, &str); 2] {
        [("NOTIFY_SOCKET", self.path.to_str().unwrap()), ("WATCHDOG_USEC", "3000000")]
    }

    fn receive(&mut self) {
        let mut buffer = [0; 1024];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            self.received.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
        }
    }

    /// Waits for a message with this line, and forgets those before it.
    async fn wait_for(&mut self, line: &str) -> String {
        wait_for(line, PATIENCE, async || {
            self.receive();
            let found =
                self.received.iter().position(|message| message.lines().any(|one| one.starts_with(line)));
            found
                .map(|at| self.received.drain(..=at).next_back().unwrap())
                .ok_or(format!("{:?}", self.received))
        })
        .await
    }
}

async fn stop(mut process: Process, manager: &mut Manager) {
    for _ in 0..2 {
        manager.wait_for("WATCHDOG=1").await;
    }
    process.term();
    manager.wait_for("STOPPING=1").await;
    assert!(process.wait_exit(PATIENCE).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_report_readiness_progress_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let manager = |name| Manager::new(folder.path(), name);
    let (mut of_api, mut of_scheduler, mut of_worker) =
        (manager("api"), manager("scheduler"), manager("worker"));
    let mut system = Installation::new().await;
    system.start_api_with(&of_api.settings()).await;
    let ready = of_api.wait_for("READY=1").await;
    assert!(ready.contains("STATUS=listens on 127.0.0.1:"), "{ready}");
    system.start_scheduler(&of_scheduler.settings()).await;
    of_scheduler.wait_for("READY=1").await;
    of_scheduler.wait_for("STATUS=leads term 1").await;
    system.start_worker(&of_worker.settings()).await;
    of_worker.wait_for("READY=1").await;
    let status = of_worker.wait_for("STATUS=serves default, system").await;
    assert!(status.contains("health on 127.0.0.1:"), "{status}");
    stop(system.workers.remove(0), &mut of_worker).await;
    stop(system.schedulers.remove(0), &mut of_scheduler).await;
    stop(system.api.take().unwrap(), &mut of_api).await;
}

/// A boot does not hang while the database is away.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_without_a_database_is_ready_and_at_work() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sched-api", "sched-scheduler", "sched-worker"] {
        let mut manager = Manager::new(folder.path(), name);
        let daemon = Process::daemon(name).env("DATABASE_URL", "postgresql://absent@127.0.0.1:1/none");
        let daemon =
            manager.settings().into_iter().fold(daemon, |daemon, (name, value)| daemon.env(name, value));
        let process = daemon.env("API_PORT", "0").start();
        manager.wait_for("READY=1").await;
        stop(process, &mut manager).await;
    }
}
