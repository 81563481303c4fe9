//! Queues that are made while the installation runs: noticed here, so that a worker serves them without a new start.
//!
//! What is not noticed while the API is away is noticed when it is back. A queue that is deleted is served on, which costs nothing.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use sched_wire::{Page, Queue, QueuesQuery};
use tokio::sync::watch;

use crate::api::Api;

/// How often the queues are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most queues that are served.
pub(super) const MOST: u16 = 1_000;

/// Keeps `known` to the queues that there are, and those that there were.
pub(super) async fn follow(api: &Api, known: &watch::Sender<BTreeSet<String>>) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let query = |limit, cursor| QueuesQuery { limit: Some(limit), cursor, ..QueuesQuery::default() };
        let found: Result<Page<Queue>, _> = api.list(&["queues"], MOST.into(), query).await;
        let Ok(found) = found else { continue };
        known.send_if_modified(|known| {
            let before = known.len();
            known.extend(found.items.into_iter().map(|queue| queue.name));
            known.len() > before
        });
    }
}
