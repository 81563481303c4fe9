//! The database layer against a real PostgreSQL: each function of `db`, its races and its refusals.

mod attempts;
mod claims;
mod due;
mod enums;
mod errors;
mod fixture;
mod jobs;
mod leadership;
mod migrations;
mod notify;
mod plans;
mod recovery;
mod tick;
