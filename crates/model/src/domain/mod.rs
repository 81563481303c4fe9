//! The rules of the product as pure code.
//!
//! Nothing here reads a clock, an environment variable, a file or a database (zone tables excepted, which
//! `schedule::zone` reads through its library). Instants and randomness are arguments. That is what lets every
//! decision be a table test, and what lets the scheduler, the API and `schedctl` agree on it.

pub mod schedule;
