//! Detects new queues while the installation runs. A deleted queue is still served, which costs
//! nothing.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use sched_wire::{Page, Queue, QueuesQuery};
use tokio::sync::watch;

use crate::api::Api;

const LOOK_EVERY: Duration = Duration::from_secs(1);
pub(super) const MOST: u16 = 1_000;

/// Deleted queues stay.
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
