//! Real programs as child processes.
//!
//! A process has an empty environment and its own process group. A drop of its handle kills the
//! group, also after a panic; a guard does so if the test program is killed. Its output goes to
//! files, so that no pipe fills up. A panicking test shows the ends of these files and keeps them.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use devdb::{Guard, Target};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use crate::{program, wait_for};

const START_LIMIT: Duration = Duration::from_secs(60);
/// Number of shown lines of each output after a panic.
const SHOWN: usize = 100;

#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: PathBuf,
}

#[derive(Clone, Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A running program. A drop kills its process group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    guard: Option<Guard>,
    stdout: PathBuf,
    stderr: PathBuf,
    name: String,
}

impl Launch {
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// The environment contains only these variables and `PATH`.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// # Panics
    ///
    /// If the program cannot be started.
    pub fn start(self) -> Process {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.try_start(&name)
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.program.display()))
    }

    /// Starts the program and waits for its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started or does not end within `limit`.
    pub async fn run(self, limit: Duration) -> Finished {
        let mut process = self.start();
        let status = process.wait_exit(limit).await;
        Finished { status, stdout: process.stdout(), stderr: process.stderr() }
    }

    fn try_start(&self, name: &str) -> std::io::Result<Process> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let logs = program::folder().join("test-logs");
        fs::create_dir_all(&logs)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("{}-{count}-{name}", std::process::id());
        let (stdout, stderr) = (logs.join(format!("{stem}.out")), logs.join(format!("{stem}.err")));
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.folder).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let child = command.process_group(0).spawn()?;
        let mut process = Process { child, guard: None, stdout, stderr, name: name.to_owned() };
        process.guard = Some(Guard::start(Target::Group(process.id()), &["KILL"], &[])?);
        Ok(process)
    }
}

impl Process {
    pub fn program(name: &str) -> Launch {
        Self::at(&program::find(name))
    }

    /// A daemon that logs JSON and takes a free port for its health listener.
    pub fn daemon(name: &str) -> Launch {
        Self::program(name).env("LOG_FORMAT", "json").env("HEALTH_PORT", "0")
    }

    pub fn at(path: &Path) -> Launch {
        let folder = std::env::temp_dir();
        Launch { program: path.to_owned(), arguments: Vec::new(), environment: Vec::new(), folder }
    }

    pub fn id(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// The standard error so far, with the log of a daemon.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    pub fn log_field(&self, field: &str) -> Option<String> {
        self.stderr().lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(line.get(field)?.as_str()?.to_owned())
        })
    }

    /// Waits for an address in `field` of a log line.
    ///
    /// # Panics
    ///
    /// If the process ends before, or after a minute.
    pub async fn addr(&mut self, field: &str) -> SocketAddr {
        let what = format!("{} logs its {field}", self.name);
        let found = wait_for(&what, START_LIMIT, async || match self.log_field(field) {
            Some(text) => Ok(Ok(text)),
            None => match self.exited() {
                Some(status) => Ok(Err(status)),
                None => Err(last_lines(&self.stderr(), SHOWN)),
            },
        });
        match found.await {
            Ok(text) => {
                text.parse().unwrap_or_else(|error| panic!("{field} {text:?} is no address: {error}"))
            }
            Err(status) => panic!("{} ended ({status}) before it logged its {field}", self.name),
        }
    }

    /// # Panics
    ///
    /// As [`Self::addr`].
    pub async fn health_addr(&mut self) -> SocketAddr {
        self.addr("health.address").await
    }

    /// # Panics
    ///
    /// If the system does not report the status.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .unwrap_or_else(|error| panic!("cannot ask for the end of {}: {error}", self.name))
    }

    /// # Panics
    ///
    /// If it does not end within `limit`.
    pub async fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("{} (process {}) ends", self.name, self.id());
        wait_for(&what, limit, async || {
            self.exited().ok_or_else(|| format!("running; {}", last_lines(&self.stderr(), 5)))
        })
        .await
    }

    /// Kills only the process itself, like a crash, and waits for its end.
    ///
    /// # Panics
    ///
    /// If it survives.
    pub async fn kill9(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait_exit(Duration::from_secs(10)).await;
    }

    pub fn term(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    ///
    /// If it does not end within `limit`.
    pub async fn stop_gracefully(&mut self, limit: Duration) -> ExitStatus {
        self.term();
        self.wait_exit(limit).await
    }

    /// Suspends the process group, like a frozen machine.
    pub fn pause(&self) {
        self.signal_group(Signal::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal_group(Signal::SIGCONT);
    }

    /// Sends a signal to the process itself.
    ///
    /// # Panics
    ///
    /// If the process has been reaped.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.id()), signal)
            .unwrap_or_else(|error| panic!("cannot send {signal} to {}: {error}", self.name));
    }

    fn signal_group(&self, signal: Signal) {
        killpg(Pid::from_raw(self.id()), signal)
            .unwrap_or_else(|error| panic!("cannot send {signal} to the group of {}: {error}", self.name));
    }

    fn show(&self) {
        for (kind, path) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let text = read(path);
            if !text.is_empty() {
                eprintln!(
                    "--- {kind} of {} (whole: {})\n{}",
                    self.name,
                    path.display(),
                    last_lines(&text, SHOWN)
                );
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An ended group needs no signal; a reaped child returns its status again.
        let _ = killpg(Pid::from_raw(self.id()), Signal::SIGKILL);
        drop(self.child.wait());
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
        if std::thread::panicking() {
            self.show();
            return;
        }
        for path in [&self.stdout, &self.stderr] {
            drop(fs::remove_file(path));
        }
    }
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(count)).copied().collect::<Vec<_>>().join("\n")
}
