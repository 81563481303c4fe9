//! The database: the only place with SQL.
//!
//! One file per aggregate. A function takes the connection first and never the pool, so that the caller owns the
//! transaction; transactions open only through [`tx::transact`], which names, measures and retries them. What the query
//! builder cannot say stands in `sql/*.sql`, each file executed from exactly one function. A conditional write returns
//! what happened, not a row count.
//!
//! Only the database's clock decides: statements read it themselves, and functions that need an instant take one that
//! came from it.

#[macro_use]
mod fragment;
#[macro_use]
mod statement;

mod columns;
pub mod error;
pub mod migrations;
pub mod notify;
pub mod pool;
pub mod roles;
pub mod schema;
mod servers;
pub mod startup;
pub mod tx;

pub mod api_keys;
pub mod archive;
pub mod attempts;
pub mod audit;
pub mod calendars;
pub mod cancellations;
pub mod claims;
pub mod clock;
pub mod dead_letters;
pub mod dependencies;
pub mod dispatches;
pub mod event_stream;
pub mod events;
pub mod executions;
pub mod functions;
pub mod health;
pub mod housekeeping;
pub mod instances;
pub mod job_ends;
pub mod job_types;
pub mod jobs;
pub mod kept_answers;
pub mod kill_switches;
pub mod ledger;
pub mod line;
pub mod live;
pub mod losses;
pub mod notifications;
pub mod overview;
pub mod partitions;
pub mod projects;
pub mod queues;
pub mod quotas;
pub mod recovery;
pub mod resources;
pub mod retention;
pub mod retries;
pub mod secrets;
pub mod sessions;
pub mod sign_ins;
pub mod stuck;
pub mod system;
pub mod templates;
pub mod tenants;
pub mod tick;
pub mod triggers;
pub mod users;
pub mod waiting;
pub mod waits;
pub mod workers;

pub use error::DbError;
pub use pool::{Database, DatabaseSettings};
pub use tx::transact;

/// A connection, as daemons name it; they never import the driver for it.
pub type Conn = diesel_async::AsyncPgConnection;

/// What every function of this module returns.
pub type DbResult<T> = Result<T, DbError>;
