//! Connections that wait for another request of the same tenant to the same endpoint.
//!
//! Tenants share none: what one leaves on a connection (a session that a server binds to it, bytes that a server sends unasked) never
//! meets the request of another.
//!
//! Only whole, idle connections come here, and none stays long: a server that closes one at the moment it is used again looks
//! as if it had taken the request and died. What the operating system process leaves behind are sockets that it closes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sched_runtime::monotonic_clock::monotonic;
use uuid::Uuid;

use super::connect::Connection;

/// How long one may wait: less than the five seconds after which common servers close theirs.
const IDLE: Duration = Duration::from_secs(4);
/// Idle connections of one tenant to one endpoint.
const MAX_PER_ENDPOINT: usize = 64;
/// Idle connections in all.
const MAX: usize = 512;

/// Whose, and to which endpoint (`https://host:port`).
type Key = (Uuid, String);

/// Idle connections.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Key, Vec<(Instant, Connection)>>>);

impl Pool {
    /// The connection used last, if one waits.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.get_mut(key)?;
        while let Some((since, connection)) = waiting.pop() {
            if since.elapsed() < IDLE && !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose last response has been read to its end.
    pub(super) fn give(&self, key: Key, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = idle.values().map(Vec::len).sum();
        let waiting = idle.entry(key).or_default();
        if !connection.sender.is_closed() && waiting.len() < MAX_PER_ENDPOINT && all < MAX {
            waiting.push((monotonic(), connection));
        }
    }

    /// Closes those that have waited too long.
    pub(super) fn tidy(&self) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, waiting| {
            waiting.retain(|(since, connection)| since.elapsed() < IDLE && !connection.sender.is_closed());
            !waiting.is_empty()
        });
    }
}
