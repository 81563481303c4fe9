#![doc = include_str!("../README.md")]

pub mod config;
pub mod daemon;
mod delivery;
pub mod driver;
pub mod exit;
pub mod health_endpoint;
pub mod http_targets;
pub mod monotonic_clock;
pub mod private_file;
pub mod service_manager;
pub mod shield;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
pub mod traces;
pub mod tracker;
