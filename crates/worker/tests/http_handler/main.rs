//! The `http` handler against servers on loopback, most of them hostile.

mod hostile;
mod requests;
mod servers;
mod support;
mod trouble;
