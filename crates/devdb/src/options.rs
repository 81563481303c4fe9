//! Options to open and stop a cluster, and its states.

use std::{path::PathBuf, process::ExitStatus};

/// The effect of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is lost: committed data stays, and the folder is kept.
    Durable,
    /// Everything may be lost: fast settings, and the folder is removed at the end.
    ThrowAway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Ends sessions, writes all data to disk, then ends.
    Fast,
    /// Ends at once; the next start recovers from the log.
    Immediate,
}

/// The current state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Accepts connections.
    Ready { pid: i32 },
    /// Starting or stopping.
    Busy { pid: i32 },
    /// Ended. Only its owner knows the exit status.
    Gone(Option<ExitStatus>),
}

/// The place and the options of a cluster.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The folder of a durable cluster; the parent folder of a throw-away cluster.
    pub dir: PathBuf,
    /// Whether data survives a crash.
    pub durability: Durability,
    /// Folder of the server programs; by default the newest installed.
    pub server: Option<PathBuf>,
    /// Also listen on this port of 127.0.0.1, with a generated password; 0 takes a free one.
    pub loopback_port: Option<u16>,
    /// The server's `max_connections`.
    pub max_connections: u16,
    /// More server settings, each `name=value`; they override those of the kind of cluster.
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

    /// A cluster in a fresh folder below `parent`, removed at the end. Leftovers of killed clusters
    /// there are swept first.
    pub fn throw_away(parent: impl Into<PathBuf>) -> Self {
        Self { durability: Durability::ThrowAway, ..Self::durable(parent) }
    }
}
