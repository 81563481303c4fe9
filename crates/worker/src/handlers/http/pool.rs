//! Idle connections that wait for another request of the same tenant to the same endpoint.
//!
//! Tenants do not share connections: state that one tenant leaves on a connection, such as a
//! session bound to it or unsolicited bytes of the server, never meets a request of another tenant.
//!
//! Only complete, idle connections enter the pool, and only for a short time: when a server closes
//! a connection at the moment of its next use, the request seems to have been received before the
//! server died. If the worker's process dies, the operating system closes the sockets.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sched_runtime::monotonic_clock::monotonic;
use uuid::Uuid;

use super::connect::Connection;

/// Maximal idle time: less than the five seconds after which common servers close idle connections.
const IDLE: Duration = Duration::from_secs(4);
/// Limit for one tenant and one endpoint.
const MAX_PER_ENDPOINT: usize = 64;
/// Limit for the worker.
const MAX: usize = 512;

/// Tenant and endpoint (`https://host:port`).
type Key = (Uuid, String);

#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Key, Vec<(Instant, Connection)>>>);

impl Pool {
    /// Returns the most recently used idle connection.
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

    /// Keeps a connection whose last response was read to its end.
    pub(super) fn give(&self, key: Key, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = idle.values().map(Vec::len).sum();
        let waiting = idle.entry(key).or_default();
        if !connection.sender.is_closed() && waiting.len() < MAX_PER_ENDPOINT && all < MAX {
            waiting.push((monotonic(), connection));
        }
    }

    /// Closes connections that were idle too long.
    pub(super) fn tidy(&self) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, waiting| {
            waiting.retain(|(since, connection)| since.elapsed() < IDLE && !connection.sender.is_closed());
            !waiting.is_empty()
        });
    }
}
