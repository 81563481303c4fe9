//! The `native` handler without a database.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

mod ending;
mod stopping;
mod threads;
