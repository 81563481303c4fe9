#![doc = include_str!("../README.md")]

#[macro_use]
pub mod connection;

pub mod cluster;
pub mod definitions;
pub mod dispatching;
pub mod events;
pub mod explain;
pub mod identity;
pub mod jobs;
pub mod recovery;
pub mod retention;
pub mod running;
pub mod schema;

pub use sched_domain as domain;
pub use sched_domain::fault_injection;

pub use crate::connection::error::DbError;
pub use crate::connection::pool::{Database, DatabaseSettings};
pub use crate::connection::transaction::transact;

/// Daemons use this name and never import the driver for it.
pub type Conn = diesel_async::AsyncPgConnection;

/// A request for a page of a list.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<K> {
    /// The position after which the page begins, in the order of the list.
    pub after: K,
    /// Most items of the page.
    pub limit: i64,
}

pub type DbResult<T> = Result<T, DbError>;
