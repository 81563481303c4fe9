//! Idle connections that wait for another request of the same tenant to the same endpoint.
//!
//! State of one tenant on a connection, such as a session bound to it, never meets a request of
//! another tenant.
//!
//! Idle time is short: if a server closes a connection at the moment of its next use, the request
//! may seem to have been received.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sched_runtime::monotonic_clock::monotonic;
use uuid::Uuid;

use super::connect::Connection;

/// Common servers close idle connections after five seconds.
const IDLE: Duration = Duration::from_secs(4);
const MAX_PER_ENDPOINT: usize = 64;
const MAX: usize = 512;

type Key = (Uuid, String);

#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Key, Vec<(Instant, Connection)>>>);

impl Pool {
    /// The most recently used idle connection.
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

    /// The last response of the connection was read to its end.
    pub(super) fn put(&self, key: Key, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = idle.values().map(Vec::len).sum();
        let waiting = idle.entry(key).or_default();
        if !connection.sender.is_closed() && waiting.len() < MAX_PER_ENDPOINT && all < MAX {
            waiting.push((monotonic(), connection));
        }
    }

    pub(super) fn clean_up(&self) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, waiting| {
            waiting.retain(|(since, connection)| since.elapsed() < IDLE && !connection.sender.is_closed());
            !waiting.is_empty()
        });
    }
}
