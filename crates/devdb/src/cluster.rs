//! The cluster for callers: open, use, stop.
//!
//! One handle at a time owns the folder: it starts, guards and stops the server. Other handles
//! attach to that server. All calls block.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
};

use crate::{
    DevDbError, Durability, OpenOptions, ServerBinaries, Status, StopMode,
    account::Account,
    find_server, folder,
    launch::{self, Plan, Running, START_LIMIT},
    postmaster,
    server::find_server_for,
    socket, wait,
};

#[derive(Debug)]
pub struct Cluster {
    pub(crate) dir: PathBuf,
    data: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) port: u16,
    pub(crate) loopback: bool,
    durability: Durability,
    server: ServerBinaries,
    /// `None` if another handle owns the server.
    owned: Option<Owned>,
}

#[derive(Debug)]
struct Owned {
    running: Running,
    _lock: File,
}

impl Cluster {
    /// Creates a missing cluster, and starts its server unless it runs. Attaches to the server of
    /// another handle that owns the folder, when that server is ready.
    ///
    /// # Errors
    ///
    /// If no usable server is installed, the folder cannot be used, or the server does not start.
    pub fn open(options: OpenOptions) -> Result<Self, DevDbError> {
        if options.durability == Durability::ThrowAway {
            let (dir, lock) = folder::make_throw_away(&options.dir)?;
            return Self::own(dir, lock, &options);
        }
        let dir = folder::create(&options.dir)?;
        let data = dir.join("data");
        let found = wait::until(START_LIMIT, || match folder::try_own(&dir) {
            Ok(Some(lock)) => Some(Ok(Some(lock))),
            Ok(None) => postmaster::find(&data).filter(|server| server.ready).map(|_| Ok(None)),
            Err(error) => Some(Err(error)),
        });
        match found.transpose()? {
            Some(Some(lock)) => Self::own(dir, lock, &options),
            Some(None) => Self::attach(dir, &options),
            None => Err(DevDbError::NotReady { dir, limit: START_LIMIT }),
        }
    }

    /// Starts the server as the folder's owner.
    fn own(dir: PathBuf, lock: File, options: &OpenOptions) -> Result<Self, DevDbError> {
        let data = dir.join("data");
        // This process holds the lock, so a running server has lost its owner, and a guard may be
        // about to end it.
        launch::end_other(&dir, &data, StopMode::Fast)?;
        let account = Account::for_folder(&dir)?;
        let server = server_for(&data, options.server.as_deref())?;
        let port = choose_port(options.loopback_port)?;
        let socket = socket::prepare(&dir, port, account)?;
        let plan = Plan {
            dir: &dir,
            data: &data,
            socket: &socket,
            port,
            loopback: options.loopback_port.is_some(),
            account,
            server: &server,
            durability: options.durability,
            max_connections: options.max_connections,
            settings: &options.settings,
        };
        if data.join("PG_VERSION").is_file() {
            account.take_over(&data)?;
            postmaster::forget_reused_id(&data)?;
        } else {
            plan.make_data()?;
        }
        let running = plan.start()?;
        let loopback = plan.loopback;
        let durability = options.durability;
        let owned = Some(Owned { running, _lock: lock });
        let cluster = Self { dir, data, socket, port, loopback, durability, server, owned };
        if loopback {
            cluster.set_password()?;
        }
        Ok(cluster)
    }

    /// A handle on a server that another handle owns.
    fn attach(dir: PathBuf, options: &OpenOptions) -> Result<Self, DevDbError> {
        let data = dir.join("data");
        let server = server_for(&data, options.server.as_deref())?;
        let socket = socket::locate(&dir);
        let found = postmaster::find(&data);
        let (port, loopback) = found.map_or((DEFAULT_PORT, false), |server| (server.port, server.loopback));
        Ok(Self { dir, data, socket, port, loopback, durability: options.durability, server, owned: None })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn server(&self) -> &ServerBinaries {
        &self.server
    }

    pub fn bin(&self, program: &str) -> PathBuf {
        self.server.program(program)
    }

    pub fn is_owner(&self) -> bool {
        self.owned.is_some()
    }

    /// The state of the server, including its end for an owner that polls.
    pub fn status(&mut self) -> Status {
        if let Some(owned) = &mut self.owned
            && let Some(status) = owned.running.exited()
        {
            return Status::Gone(Some(status));
        }
        match postmaster::find(&self.data) {
            Some(server) if server.ready => Status::Ready { pid: server.pid },
            Some(server) => Status::Busy { pid: server.pid },
            None => Status::Gone(None),
        }
    }

    /// Stops the server, even another handle's, and removes a throw-away cluster's folder.
    ///
    /// # Errors
    ///
    /// If the server survives a kill, or the folder cannot be removed.
    pub fn stop(mut self, mode: StopMode) -> Result<(), DevDbError> {
        match self.owned.take() {
            Some(owned) => self.shut_down(owned, mode),
            None => launch::end_other(&self.dir, &self.data, mode),
        }
    }

    fn shut_down(&self, mut owned: Owned, mode: StopMode) -> Result<(), DevDbError> {
        owned.running.stop(&self.dir, mode)?;
        socket::remove(&self.dir);
        match self.durability {
            Durability::Durable => Ok(()),
            Durability::ThrowAway => {
                fs::remove_dir_all(&self.dir).map_err(DevDbError::file("remove", &self.dir))
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(owned) = self.owned.take() {
            let mode = match self.durability {
                Durability::Durable => StopMode::Fast,
                Durability::ThrowAway => StopMode::Immediate,
            };
            // The next start sweeps leftovers.
            drop(self.shut_down(owned, mode));
        }
    }
}

pub(crate) const DEFAULT_PORT: u16 = 5432;

fn choose_port(wanted: Option<u16>) -> Result<u16, DevDbError> {
    match wanted {
        None => Ok(DEFAULT_PORT),
        Some(0) => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
            let address = listener.and_then(|listener| listener.local_addr());
            Ok(address.map_err(DevDbError::file("find a free port of", "127.0.0.1"))?.port())
        }
        Some(port) => Ok(port),
    }
}

fn server_for(data: &Path, explicit: Option<&Path>) -> Result<ServerBinaries, DevDbError> {
    let path = data.join("PG_VERSION");
    match fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()) {
        Some(major) => find_server_for(explicit, major, data),
        None => find_server(explicit),
    }
}
