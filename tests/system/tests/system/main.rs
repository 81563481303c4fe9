//! The real programs, together, with and without faults. Each test asserts what the tables and the API say afterwards.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod bad_starts;
mod broken_fences;
mod commands;
mod dependencies;
mod dev;
mod drains;
mod examples;
mod failover;
mod failover_checker;
mod failover_clock;
mod failover_database;
mod failover_frozen;
mod failover_handover;
mod failover_network;
mod failover_standby;
mod finished_checker;
mod hostile_http;
mod ledger;
mod live;
mod migrations;
mod monitoring;
mod notifications;
mod policies;
mod polling;
mod pooler;
mod restart;
mod scenarios;
mod secrets;
mod timetables;
mod traces;
mod tracker;
mod waiting;
mod worker_database;
mod worker_faults;
mod worker_fleet;
