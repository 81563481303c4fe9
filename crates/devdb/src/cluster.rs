//! The cluster as callers see it: open, use, stop.
//!
//! Ties the other modules together and decides who owns the folder. One owner at a time starts, guards and stops the
//! server; anybody else who opens the folder meanwhile attaches to it. All calls block.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use crate::{
    DevDbError, ServerBinaries,
    account::Account,
    find_server, folder,
    launch::{self, Plan, Running, START_LIMIT},
    postmaster,
    server::find_server_for,
    socket, wait,
};

/// What a crash may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: what was committed stays, and the folder is kept.
    Durable,
    /// Everything: fast settings, and the folder is removed at the end.
    ThrowAway,
}

/// How to stop a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Ends sessions, writes everything down, then ends.
    Fast,
    /// Ends at once; the next start recovers from the log.
    Immediate,
}

/// What a server does right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It takes connections.
    Ready {
        /// Its process.
        pid: i32,
    },
    /// It is there, but starting or stopping.
    Busy {
        /// Its process.
        pid: i32,
    },
    /// It is gone. How it ended is known to its owner only.
    Gone(Option<ExitStatus>),
}

/// Where and how to open a cluster.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// A durable cluster's own folder; the parent of a throw-away cluster's folder.
    pub dir: PathBuf,
    /// Keep the data, or be fast.
    pub durability: Durability,
    /// Folder of the server programs; the newest installed when absent.
    pub server: Option<PathBuf>,
    /// Also listen on this port of 127.0.0.1, with a generated password; 0 takes a free one.
    pub loopback_port: Option<u16>,
    /// The server's `max_connections`.
    pub max_connections: u16,
}

impl OpenOptions {
    /// A cluster that is kept in `dir`.
    pub fn durable(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            durability: Durability::Durable,
            server: None,
            loopback_port: None,
            max_connections: 200,
        }
    }

    /// A cluster in a fresh folder below `parent`, removed at the end. Leftovers of killed ones there are swept first.
    pub fn throw_away(parent: impl Into<PathBuf>) -> Self {
        Self { durability: Durability::ThrowAway, ..Self::durable(parent) }
    }
}

/// A private PostgreSQL. The server ends when its owning handle is dropped.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    data: PathBuf,
    socket: PathBuf,
    port: u16,
    loopback: bool,
    durability: Durability,
    server: ServerBinaries,
    /// `None` when another handle owns the server.
    owned: Option<Owned>,
}

#[derive(Debug)]
struct Owned {
    running: Running,
    _lock: File,
}

impl Cluster {
    /// Opens the cluster: makes it when missing, starts its server when it is not running.
    ///
    /// While another handle owns the folder this waits for that server and attaches to it.
    ///
    /// # Errors
    ///
    /// When no usable server is installed, the folder cannot be used, or the server does not start.
    pub fn open(options: OpenOptions) -> Result<Self, DevDbError> {
        if options.durability == Durability::ThrowAway {
            let (dir, lock) = folder::make_throw_away(&options.dir)?;
            return Self::own(dir, lock, &options);
        }
        let dir = folder::make(&options.dir)?;
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
        // The lock is ours, so this server has lost its owner: its clients are gone, and a guard may be about to end it.
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

    /// A handle on a server that another one owns.
    fn attach(dir: PathBuf, options: &OpenOptions) -> Result<Self, DevDbError> {
        let data = dir.join("data");
        let server = server_for(&data, options.server.as_deref())?;
        let socket = socket::locate(&dir);
        let found = postmaster::find(&data);
        let (port, loopback) = found.map_or((DEFAULT_PORT, false), |server| (server.port, server.loopback));
        Ok(Self { dir, data, socket, port, loopback, durability: options.durability, server, owned: None })
    }

    /// The cluster's folder, without links.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The server programs in use.
    pub fn server(&self) -> &ServerBinaries {
        &self.server
    }

    /// Path of a program of that server, such as `pg_dump`.
    pub fn bin(&self, program: &str) -> PathBuf {
        self.server.program(program)
    }

    /// Whether the server ends with this handle.
    pub fn is_owner(&self) -> bool {
        self.owned.is_some()
    }

    /// Connection URL of a database through the Unix socket; it needs no password.
    pub fn url(&self, database: &str) -> String {
        let host = encode(&self.socket.to_string_lossy());
        let port = if self.port == DEFAULT_PORT { String::new() } else { format!(":{}", self.port) };
        format!("postgresql://postgres@{host}{port}/{}", encode(database))
    }

    /// Connection URL through 127.0.0.1, password included, where the server listens there.
    ///
    /// # Errors
    ///
    /// When the password cannot be read.
    pub fn loopback_url(&self, database: &str) -> Result<Option<String>, DevDbError> {
        if !self.loopback {
            return Ok(None);
        }
        let path = self.password_file();
        let password = fs::read_to_string(&path).map_err(DevDbError::file("read", path))?;
        Ok(Some(format!("postgresql://postgres:{password}@127.0.0.1:{}/{}", self.port, encode(database))))
    }

    /// What the server does now. An owner that polls this learns of a server that died by itself.
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

    /// Creates a database where it is missing.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub fn create_database(&self, name: &str) -> Result<(), DevDbError> {
        // The one statement outside `model::db`, with the role's password below: it makes the database that `model`
        // connects to.
        let script = r"SELECT format('CREATE DATABASE %I', :'name')
            WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \gexec";
        self.psql(&["-v", &format!("name={name}")], script)
    }

    /// Stops the server, also one that another handle owns, and removes the folder of a throw-away cluster.
    ///
    /// # Errors
    ///
    /// When the server survives even being killed, or the folder cannot be removed.
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

    fn password_file(&self) -> PathBuf {
        self.dir.join("password")
    }

    fn set_password(&self) -> Result<(), DevDbError> {
        let path = self.password_file();
        if !path.is_file() {
            let mut bytes = [0; 16];
            let random = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
            random.map_err(DevDbError::file("read", "/dev/urandom"))?;
            let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let written = File::options().create_new(true).write(true).mode(0o600).open(&path);
            let written = written.and_then(|mut file| file.write_all(password.as_bytes()));
            written.map_err(DevDbError::file("write", &path))?;
        }
        let password = fs::read_to_string(&path).map_err(DevDbError::file("read", &path))?;
        let hexadecimal: String = password.chars().filter(char::is_ascii_hexdigit).collect();
        self.psql(&[], &format!("ALTER ROLE postgres PASSWORD '{hexadecimal}';"))
    }

    /// Runs a script through `psql`'s input, where other users' process lists do not show it.
    fn psql(&self, arguments: &[&str], script: &str) -> Result<(), DevDbError> {
        let mut input =
            tempfile::tempfile().map_err(DevDbError::file("create a file in", std::env::temp_dir()))?;
        let filled = input.write_all(script.as_bytes()).and_then(|()| std::io::Seek::rewind(&mut input));
        filled.map_err(DevDbError::file("write a file in", std::env::temp_dir()))?;
        let program = self.bin("psql");
        let mut command = Account::Ourselves.command(&program);
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres"]);
        command.arg("-h").arg(&self.socket).args(["-p", &self.port.to_string()]).args(arguments).stdin(input);
        Account::Ourselves.run(program, &mut command).map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(owned) = self.owned.take() {
            let mode = match self.durability {
                Durability::Durable => StopMode::Fast,
                Durability::ThrowAway => StopMode::Immediate,
            };
            // There is nobody to tell; what is left over is swept by the next start.
            drop(self.shut_down(owned, mode));
        }
    }
}

const DEFAULT_PORT: u16 = 5432;

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

/// The server that can read the data; any, when there is none yet.
fn server_for(data: &Path, explicit: Option<&Path>) -> Result<ServerBinaries, DevDbError> {
    let path = data.join("PG_VERSION");
    match fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()) {
        Some(major) => find_server_for(explicit, major, data),
        None => find_server(explicit),
    }
}

/// Percent-encodes all but what a URL's host may hold as it is.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
