//! The service manager (systemd): readiness, status, watchdog and stop, by the datagrams of
//! `sd_notify(3)`.
//!
//! A daemon is ready when its settings are sound and its listener is bound. It does not wait for the
//! database, because a boot would hang while the database is away.
//!
//! The watchdog is fed by progress: each loop that matters registers its [`Turns`] with the longest
//! time that a turn may take. The feeding task shares the runtime with the loops. It sends nothing
//! while a loop is late, and the service manager restarts the process. An outage of the database
//! makes no loop late.
//!
//! Without a service manager nothing is sent. Datagrams are never waited for: a full socket drops
//! them.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::monotonic_clock::monotonic;

/// Time between two messages without a watchdog.
const PERIOD: Duration = Duration::from_secs(10);
/// The time to stop that each message of a stopping daemon requests, from then on.
const STOP_EXTENSION: Duration = Duration::from_secs(60);

/// The connection to the service manager, and the loops that feed its watchdog.
#[derive(Debug, Clone, Default)]
pub struct ServiceManager {
    socket: Option<Arc<UnixDatagram>>,
    /// The process is killed if it is silent for longer.
    watchdog: Option<Duration>,
    loops: Arc<Mutex<Vec<Weak<Loop>>>>,
}

#[derive(Debug)]
struct Loop {
    name: &'static str,
    limit: Duration,
    latest: Mutex<Instant>,
}

/// The progress of one loop. A drop ends its supervision.
#[derive(Debug)]
pub struct Turns(Arc<Loop>);

impl Turns {
    /// Marks a turn of the loop.
    pub fn turned(&self) {
        *self.0.latest.lock().unwrap_or_else(PoisonError::into_inner) = monotonic();
    }
}

impl ServiceManager {
    /// As the variables of the service manager describe it.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(variable)
    }

    fn of(variable: impl Fn(&'static str) -> Option<OsString>) -> Self {
        let Some(address) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let socket = match connect(&address) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(error = %error, "the service manager cannot be notified");
                return Self::default();
            }
        };
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        // The variable names another process if a shell started this one.
        let is_mine = variable("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| is_mine).map(Duration::from_micros);
        Self { socket: Some(Arc::new(socket)), watchdog, loops: Arc::default() }
    }

    /// Whether a stuck process is restarted.
    #[must_use]
    pub fn has_watchdog(&self) -> bool {
        self.socket.is_some() && self.watchdog.is_some()
    }

    /// The daemon serves. `status` is for operators.
    pub fn ready(&self, status: impl Display) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// A short description of the present state, for operators.
    pub fn status(&self, status: impl Display) {
        self.send(&format!("STATUS={status}"));
    }

    /// Supervises a loop, each turn of which takes no longer than `limit`.
    #[must_use]
    pub fn supervise(&self, name: &'static str, limit: Duration) -> Turns {
        let one = Arc::new(Loop { name, limit, latest: Mutex::new(monotonic()) });
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&one));
        Turns(one)
    }

    /// The loops that are late.
    fn late(&self) -> Vec<&'static str> {
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|one| one.strong_count() > 0);
        let is_late = |one: &Arc<Loop>| {
            let latest = *one.latest.lock().unwrap_or_else(PoisonError::into_inner);
            monotonic().saturating_duration_since(latest) > one.limit
        };
        loops.iter().filter_map(Weak::upgrade).filter(is_late).map(|one| one.name).collect()
    }

    /// Feeds the watchdog, and reports the stop. Never ends.
    pub(crate) async fn run(self, stop: CancellationToken) {
        if self.socket.is_none() {
            return std::future::pending().await;
        }
        let period = self.watchdog.map_or(PERIOD, |watchdog| watchdog / 3);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.send("STOPPING=1\nSTATUS=stopping");
                }
            }
            let late = self.late();
            if late.is_empty() {
                self.feed(is_stopping);
            } else {
                tracing::error!(loops = late.join(", "), "a loop makes no progress; the watchdog is not fed");
            }
        }
    }

    fn feed(&self, is_stopping: bool) {
        let mut message = String::new();
        if self.watchdog.is_some() {
            message.push_str("WATCHDOG=1\n");
        }
        if is_stopping {
            message.push_str(&format!("EXTEND_TIMEOUT_USEC={}\n", STOP_EXTENSION.as_micros()));
        }
        if !message.is_empty() {
            self.send(message.trim_end());
        }
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::debug!(error = %error, "a message to the service manager was lost");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "set by the service manager and not a setting of the operator")]
fn variable(name: &'static str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The address is a path, or begins with `@` and is abstract.
fn connect(address: &OsStr) -> std::io::Result<UnixDatagram> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?,
        #[cfg(not(target_os = "linux"))]
        Some(_) => return Err(std::io::ErrorKind::Unsupported.into()),
        None => SocketAddr::from_pathname(Path::new(address))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::spawn_owned;

    struct Manager {
        socket: UnixDatagram,
        _folder: tempfile::TempDir,
        address: OsString,
    }

    impl Manager {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("notify");
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_nonblocking(true).unwrap();
            Self { socket, _folder: folder, address: path.into_os_string() }
        }

        fn client(&self, watchdog: Option<&str>, pid: Option<&str>) -> ServiceManager {
            ServiceManager::of(|name| match name {
                "NOTIFY_SOCKET" => Some(self.address.clone()),
                "WATCHDOG_USEC" => watchdog.map(OsString::from),
                _ => pid.map(OsString::from),
            })
        }

        fn received(&self) -> Vec<String> {
            let mut buffer = [0; 512];
            let receive = || {
                let length = self.socket.recv(&mut buffer).ok()?;
                Some(String::from_utf8(buffer.get(..length)?.to_vec()).unwrap())
            };
            std::iter::from_fn(receive).collect()
        }
    }

    #[test]
    fn messages_have_the_documented_form() {
        let manager = Manager::new();
        let client = manager.client(None, None);
        client.ready("waiting for the database");
        client.status(format_args!("leads term {}", 7));
        assert_eq!(manager.received(), ["READY=1\nSTATUS=waiting for the database", "STATUS=leads term 7"]);
        assert!(!client.has_watchdog());
    }

    #[test]
    fn watchdog_of_another_process_is_ignored() {
        let manager = Manager::new();
        let own = std::process::id().to_string();
        for (pid, expected) in [(None, true), (Some(own.as_str()), true), (Some("1"), false)] {
            assert_eq!(manager.client(Some("30000000"), pid).has_watchdog(), expected, "{pid:?}");
        }
    }

    #[test]
    fn missing_or_broken_manager_is_harmless() {
        for address in [None, Some("/nonexistent/notify"), Some("@no such abstract socket")] {
            let client = ServiceManager::of(|_| address.map(OsString::from));
            client.ready("x");
            assert!(!client.has_watchdog());
        }
    }

    #[tokio::test]
    async fn watchdog_is_fed_only_while_every_loop_turns() {
        let manager = Manager::new();
        let client = manager.client(Some("60000"), None);
        let stop = CancellationToken::new();
        let _feeding = spawn_owned("feed", client.clone().run(stop.clone()));
        let turns = client.supervise("beat", Duration::from_secs(1));
        type Seen = Box<dyn FnMut(&[String]) -> bool>;
        let until = async |what: &str, mut seen: Seen| {
            for _ in 0..500 {
                if seen(&manager.received()) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("{what} was never seen");
        };
        let is_fed = |messages: &[String]| messages.iter().any(|message| message == "WATCHDOG=1");
        until("the watchdog", Box::new(is_fed)).await;
        // The loop is stuck: after its limit nothing comes for several periods.
        let mut quiet = 0;
        until(
            "silence",
            Box::new(move |messages| {
                quiet = if messages.is_empty() { quiet + 1 } else { 0 };
                quiet > 10
            }),
        )
        .await;
        turns.turned();
        until("the watchdog again", Box::new(is_fed)).await;
        drop(turns);
        stop.cancel();
        let mut all = Vec::new();
        until(
            "the stop",
            Box::new(move |messages| {
                all.extend(messages.to_vec());
                all.iter().any(|message| message.starts_with("STOPPING=1"))
                    && all.iter().any(|message| message == "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=60000000")
            }),
        )
        .await;
    }
}
