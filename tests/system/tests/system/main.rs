//! The real programs, together, with and without faults. Each test asserts what the tables and the API say afterwards.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

mod bad_starts;
mod dependencies;
mod dev;
mod examples;
mod failover;
mod migrations;
mod restart;
mod scenarios;
mod timetables;
