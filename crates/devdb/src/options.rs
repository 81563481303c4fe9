use std::{path::PathBuf, process::ExitStatus};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Committed data and the folder stay.
    Durable,
    /// Fast settings; the folder is removed at the end.
    ThrowAway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    Fast,
    Immediate,
}

/// The current state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ready {
        pid: i32,
    },
    Busy {
        pid: i32,
    },
    /// Ended. Only the owner knows the exit status.
    Gone(Option<ExitStatus>),
}

#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub dir: PathBuf,
    /// Whether data survives a crash.
    pub durability: Durability,
    /// Folder of the server programs; by default the newest.
    pub server: Option<PathBuf>,
    /// An additional port of 127.0.0.1, with a generated password; 0 takes a free one.
    pub loopback_port: Option<u16>,
    pub max_connections: u16,
    /// More settings, each `name=value`; they override the defaults.
    pub settings: Vec<String>,
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
            settings: Vec::new(),
        }
    }

    /// A cluster in a fresh folder below `parent`, removed at the end. Sweeps leftovers there
    /// first.
    pub fn throw_away(parent: impl Into<PathBuf>) -> Self {
        Self { durability: Durability::ThrowAway, ..Self::durable(parent) }
    }
}
