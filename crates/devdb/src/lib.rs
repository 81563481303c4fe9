#![doc = include_str!("../README.md")]

mod account;
mod cluster;
mod error;
mod folder;
mod guard;
mod journal;
mod launch;
mod postmaster;
mod server;
mod settings;
mod socket;
mod wait;

pub use cluster::{Cluster, Durability, OpenOptions, Status, StopMode};
pub use error::DevDbError;
pub use guard::{Guard, Target};
pub use server::{OLDEST_SERVER, ServerBinaries, find_server};
