//! The connections to the database: some for each thread that serves requests, and some for all.
//!
//! What is sent and received over a connection is done by the thread that made it. A request that takes a connection of another thread has
//! that thread woken for each message, there and back, which takes as long as a short statement does. So each serving thread has a
//! lane: a small pool that nobody else uses. Whoever finds nothing free there, and the tasks beside the requests, take a connection
//! of the common pool. All of them together are no more than the setting allows. Nothing is kept here that a process which dies could lose.

use std::sync::Arc;
use std::thread::available_parallelism;

use sched_model::db::pool::{InvalidDatabaseSettings, PoolStatus, Pooled};
use sched_model::db::{Database, DatabaseSettings, DbResult};
use thread_local::ThreadLocal;

/// Connections for which there is one more thread, and a lane: with fewer, lanes would leave too little for all.
const CONNECTIONS_OF_A_THREAD: usize = 4;

/// The connections.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    common: Database,
    of_threads: Arc<ThreadLocal<Database>>,
    plan: Plan,
    settings: DatabaseSettings,
}

/// How the connections are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    threads: usize,
    /// Connections of each thread's own.
    lane: usize,
    common: usize,
}

impl Plan {
    /// Three of five connections for the threads, as far as they can be divided; no lanes where there are too few.
    fn of(connections: usize, cores: usize) -> Self {
        let threads = (connections / CONNECTIONS_OF_A_THREAD).clamp(1, cores.max(1));
        let lane = if connections < CONNECTIONS_OF_A_THREAD { 0 } else { connections * 3 / (5 * threads) };
        Self { threads, lane, common: connections - lane * threads }
    }
}

impl Lanes {
    /// Prepares the way; connects to nothing yet.
    pub(crate) fn new(settings: DatabaseSettings) -> Result<Self, InvalidDatabaseSettings> {
        let plan = Plan::of(settings.pool_size, available_parallelism().map_or(1, usize::from));
        let common = Database::new(&DatabaseSettings { pool_size: plan.common, ..settings.clone() })?;
        let settings = DatabaseSettings { pool_size: plan.lane, ..settings };
        Ok(Self { common, of_threads: Arc::default(), plan, settings })
    }

    /// How many threads have a lane once each has called [`Self::open`].
    pub(crate) fn threads(&self) -> usize {
        self.plan.threads
    }

    /// Gives this thread its lane.
    pub(crate) fn open(&self) {
        if self.plan.lane == 0 {
            return;
        }
        if let Err(error) = self.of_threads.get_or_try(|| Database::new(&self.settings)) {
            // The common pool was made of the same settings, so this is nothing to end for.
            tracing::warn!(%error, "A thread has no connections of its own.");
        }
    }

    /// A connection: of this thread's own if one is free, or else of the common ones.
    pub(crate) async fn conn(&self) -> DbResult<Pooled> {
        if let Some(own) = self.of_threads.get()
            && let Some(conn) = own.free_conn().await?
        {
            return Ok(conn);
        }
        self.common.conn().await
    }

    /// Those for all.
    pub(crate) fn common(&self) -> &Database {
        &self.common
    }

    /// How all of them are used at the moment.
    pub(crate) fn status(&self) -> PoolStatus {
        self.of_threads.iter().map(Database::pool_status).fold(self.common.pool_status(), |sum, one| {
            PoolStatus {
                most: sum.most + one.most,
                open: sum.open + one.open,
                in_use: sum.in_use + one.in_use,
                waiting: sum.waiting + one.waiting,
            }
        })
    }

    /// Gives them back.
    pub(crate) fn close(&self) {
        self.common.close();
        self.of_threads.iter().for_each(Database::close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_are_divided_and_none_is_made_up() {
        assert_eq!(Plan::of(10, 2), Plan { threads: 2, lane: 3, common: 4 });
        assert_eq!(Plan::of(10, 64), Plan { threads: 2, lane: 3, common: 4 });
        assert_eq!(Plan::of(100, 64), Plan { threads: 25, lane: 2, common: 50 });
        assert_eq!(Plan::of(4, 8), Plan { threads: 1, lane: 2, common: 2 });
        assert_eq!(Plan::of(1, 8), Plan { threads: 1, lane: 0, common: 1 });
        for (connections, cores) in
            (1..200).flat_map(|connections| [1, 2, 3, 8, 64].map(|cores| (connections, cores)))
        {
            let plan = Plan::of(connections, cores);
            assert_eq!(plan.lane * plan.threads + plan.common, connections, "{plan:?}");
            assert!(plan.common >= 1 && (1..=cores).contains(&plan.threads), "{plan:?}");
        }
    }
}
