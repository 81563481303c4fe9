#![doc = include_str!("../README.md")]

mod access;
mod account;
mod cluster;
mod error;
mod folder;
mod guard;
mod journal;
mod launch;
mod options;
mod postmaster;
mod server;
mod settings;
mod socket;
mod standby;
mod wait;

pub use cluster::Cluster;
pub use error::DevDbError;
pub use guard::{Guard, Target};
pub use options::{Durability, OpenOptions, Status, StopMode};
pub use server::{OLDEST_SERVER, ServerBinaries, find_server};
pub use standby::REPLICATED;
