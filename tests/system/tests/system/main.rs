//! The real programs, together, with and without faults. Each test asserts what the tables and the API say afterwards.

mod bad_starts;
mod dev;
mod examples;
mod failover;
mod migrations;
mod restart;
mod scenarios;
