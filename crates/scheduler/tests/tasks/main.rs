//! The leader's tasks against a real PostgreSQL, read with plain SQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

mod counters;
mod dispatch;
mod heartbeat;
mod leader;
mod maintain;
mod notify;
mod planned;
mod quarantine;
mod recover;
mod refused;
mod restrictions;
mod retain;
mod stale_cursors;
mod waiting;
