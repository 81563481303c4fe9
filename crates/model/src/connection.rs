//! Connections, transactions, migrations and the macros for SQL statements.

#[macro_use]
pub(crate) mod fragment;
#[macro_use]
pub(crate) mod statement;
pub mod database_clock;
pub mod error;
pub(crate) mod hosts;
pub(crate) mod like;
pub mod migrations;
pub mod notify;
pub mod partitions;
pub(crate) mod pipelined;
pub mod pool;
mod role_error;
pub mod row_security;
pub mod startup;
pub mod transaction;
