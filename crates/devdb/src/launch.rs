//! One run of the server: create the data folder, start, wait for readiness, stop.
//!
//! The server is a direct child, so its end is noticed at once. The guard ends it when this process
//! cannot. The caller holds the folder's lock.

use std::{
    fs::{self, File},
    os::unix::{fs::DirBuilderExt, process::CommandExt},
    path::Path,
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{
    DevDbError, Durability, ServerBinaries, StopMode,
    account::{Account, LOCALE, checked},
    guard::{Guard, Target},
    journal::Journal,
    postmaster, settings, wait,
};

/// Includes crash recovery of a busy database.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);
const FAST_LIMIT: Duration = Duration::from_secs(30);
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(10);
/// A new server does not start until all children of a killed one have ended.
const ATTEMPTS: u32 = 10;

#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) data: &'a Path,
    pub(crate) socket: &'a Path,
    pub(crate) port: u16,
    pub(crate) loopback: bool,
    pub(crate) account: Account,
    pub(crate) server: &'a ServerBinaries,
    pub(crate) durability: Durability,
    pub(crate) max_connections: u16,
    pub(crate) settings: &'a [String],
}

#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    guard: Option<Guard>,
    journal: Journal,
}

impl Plan<'_> {
    /// Builds the data folder beside its final place, so that an interrupted `initdb` never counts
    /// as a cluster.
    pub(crate) fn make_data(&self) -> Result<(), DevDbError> {
        let new = self.dir.join("data.new");
        if new.exists() {
            fs::remove_dir_all(&new).map_err(DevDbError::file("remove", &new))?;
        }
        fs::DirBuilder::new().mode(0o700).create(&new).map_err(DevDbError::file("create", &new))?;
        self.account.take_over(&new)?;
        let program = self.server.program("initdb");
        let mut command = self.account.command(&program);
        command.arg("-D").arg(&new).args(["-U", "postgres", "-E", "UTF8", "--locale", LOCALE]);
        command.args(["--auth-local=trust", "--auth-host=scram-sha-256", "--no-instructions"]);
        if self.durability == Durability::ThrowAway {
            command.arg("--no-sync");
        }
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = command.spawn().and_then(|child| {
            // Without the guard, `initdb` would outlive this process and obstruct the next attempt.
            let guard = Guard::start(Target::Group(pid_of(&child)), &["KILL"], &[&new])?;
            let output = child.wait_with_output();
            guard.release();
            output
        });
        checked(program.clone(), &ran.map_err(|source| DevDbError::Run { program, source })?)?;
        fs::rename(&new, self.data).map_err(DevDbError::file("move the new cluster to", self.data))?;
        let synced = File::open(self.dir).and_then(|dir| dir.sync_all());
        synced.map_err(DevDbError::file("sync", self.dir))
    }

    pub(crate) fn start(&self) -> Result<Running, DevDbError> {
        let after_crash = postmaster::pid_file(self.data).exists();
        let mut attempt = 1;
        loop {
            match self.start_once() {
                Err(DevDbError::StartFailed { .. }) if after_crash && attempt < ATTEMPTS => {
                    attempt += 1;
                    std::thread::sleep(Duration::from_millis(500));
                }
                other => return other,
            }
        }
    }

    fn start_once(&self) -> Result<Running, DevDbError> {
        let (journal, log) = Journal::open(self.dir)?;
        let program = self.server.program("postgres");
        let mut command = self.account.command(&program);
        command.arg("-D").arg(self.data).arg("-k").arg(self.socket).args(["-p", &self.port.to_string()]);
        let own = settings::all(self.durability, self.max_connections, self.loopback);
        // The server uses the last value of a repeated setting.
        for setting in own.iter().chain(self.settings) {
            command.args(["-c", setting]);
        }
        command.stdout(log.try_clone().map_err(DevDbError::file("open", self.dir.join("log")))?).stderr(log);
        // In its own group: a Ctrl-C at a terminal must reach the daemons first and the database
        // last.
        command.process_group(0);
        let child = command.spawn().map_err(|source| DevDbError::Run { program, source })?;
        let mut running = Running { child, guard: None, journal };
        running.guard = Some(self.guard(running.pid())?);
        self.wait_ready(running)
    }

    fn guard(&self, pid: i32) -> Result<Guard, DevDbError> {
        let (signals, remove): (&[&str], &[&Path]) = match self.durability {
            Durability::Durable => (&["INT", "QUIT", "KILL"], &[]),
            Durability::ThrowAway => (&["QUIT", "KILL"], &[self.dir, self.socket]),
        };
        Guard::start(Target::Process(pid), signals, remove)
            .map_err(|source| DevDbError::Run { program: "/bin/sh".into(), source })
    }

    fn wait_ready(&self, mut running: Running) -> Result<Running, DevDbError> {
        let pid = running.pid();
        let ended = wait::until(START_LIMIT, || {
            if let Some(status) = running.exited() {
                return Some(Some(status));
            }
            let ready = postmaster::find(self.data).is_some_and(|server| server.pid == pid && server.ready);
            ready.then_some(None)
        });
        match ended {
            Some(None) => Ok(running),
            Some(Some(status)) => {
                let log = running.journal.tail();
                Err(DevDbError::StartFailed { dir: self.dir.to_owned(), status, log })
            }
            None => {
                // The caller gets the error of the start.
                drop(running.stop(self.dir, StopMode::Immediate));
                Err(DevDbError::NotReady { dir: self.dir.to_owned(), limit: START_LIMIT })
            }
        }
    }
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        pid_of(&self.child)
    }

    /// The exit status of an ended server. Releases the guard, so that it never signals another
    /// process with that id.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        // An error means that other code reaped the child, so it has ended; `stop` finds no
        // process.
        let status = self.child.try_wait().ok().flatten()?;
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
        Some(status)
    }

    pub(crate) fn stop(&mut self, dir: &Path, mode: StopMode) -> Result<(), DevDbError> {
        let pid = self.pid();
        let gentle = (Signal::SIGINT, FAST_LIMIT);
        let hard = [(Signal::SIGQUIT, IMMEDIATE_LIMIT), (Signal::SIGKILL, IMMEDIATE_LIMIT)];
        let steps = (mode == StopMode::Fast).then_some(gentle).into_iter().chain(hard);
        if self.exited().is_some() {
            return Ok(());
        }
        for (signal, limit) in steps {
            if postmaster::end(pid, signal, limit, || self.exited().is_some()) {
                return Ok(());
            }
        }
        Err(DevDbError::NotStopped { dir: dir.to_owned(), pid })
    }
}

fn pid_of(child: &Child) -> i32 {
    // Process ids are positive and below 2^31.
    i32::try_from(child.id()).unwrap_or(i32::MAX)
}

pub(crate) fn end_other(dir: &Path, data: &Path, mode: StopMode) -> Result<(), DevDbError> {
    let Some(server) = postmaster::find(data) else { return Ok(()) };
    let gone = || postmaster::find(data).is_none_or(|now| now.pid != server.pid);
    let gentle = mode == StopMode::Fast && postmaster::end(server.pid, Signal::SIGINT, FAST_LIMIT, gone);
    if gentle || postmaster::end(server.pid, Signal::SIGQUIT, IMMEDIATE_LIMIT, gone) {
        return Ok(());
    }
    Err(DevDbError::NotStopped { dir: dir.to_owned(), pid: server.pid })
}
