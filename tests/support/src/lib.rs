#![doc = include_str!("../README.md")]

mod cluster;
mod database;
pub mod fixture;
pub mod http;
pub mod identity;
mod login;
mod pair;
mod pooler;
mod ports;
mod process;
mod program;
mod proxy;
mod server;
mod state;
mod wait;

pub use cluster::{URL_VARIABLE, server_program, throw_away};
pub use database::{AnyError, TestDatabase, connect, install};
pub use fixture::Fixture;
pub use login::Login;
pub use pair::Pair;
pub use pooler::Pooler;
pub use ports::free_port;
pub use process::{Finished, Launch, Process};
pub use proxy::{Proxy, socket_of};
pub use server::OwnServer;
pub use state::{is_running, process_state};
pub use tokio_postgres::Client;
pub use wait::wait_for;
