//! What callers say when they open or stop a cluster, and what they are told of it.

use std::{path::PathBuf, process::ExitStatus};

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
    /// Further server settings, each `name=value`; they are stronger than those of the kind of cluster.
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

    /// A cluster in a fresh folder below `parent`, removed at the end. Leftovers of killed ones there are swept first.
    pub fn throw_away(parent: impl Into<PathBuf>) -> Self {
        Self { durability: Durability::ThrowAway, ..Self::durable(parent) }
    }
}
