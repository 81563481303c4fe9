//! Database connections: some per serving thread, the rest shared.
//!
//! A thread does the I/O of the connections that it opened. A request on a connection of another
//! thread wakes that thread for each message, both ways. So each serving thread has a lane: a small
//! own pool. If its lane is empty, a request takes a free shared connection or one of another lane.
//! No request waits while a connection is free. Background tasks use the shared pool. The setting
//! bounds the sum. Nothing here is lost with the process.

use std::pin::pin;
use std::sync::Arc;
use std::thread::available_parallelism;

use futures_util::future::{Either, select};
use sched_model::connection::pool::{InvalidDatabaseSettings, PoolStatus, Pooled};
use sched_model::{Database, DatabaseSettings, DbResult};
use thread_local::ThreadLocal;

/// One more serving thread per this many connections.
const CONNECTIONS_OF_A_THREAD: usize = 4;
/// Minimum of serving threads: a computation must not block the health pages.
const FEWEST_THREADS: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct Pools {
    common: Database,
    of_threads: Arc<ThreadLocal<Database>>,
    plan: Plan,
    settings: DatabaseSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    threads: usize,
    lane: usize,
    common: usize,
}

impl Plan {
    /// Gives three fifths of the connections to the lanes, rounded down to whole connections per
    /// lane.
    fn of(connections: usize, cores: usize) -> Self {
        let cores = cores.max(1);
        let threads = (connections / CONNECTIONS_OF_A_THREAD).clamp(FEWEST_THREADS.min(cores), cores);
        let lane = connections * 3 / (5 * threads);
        Self { threads, lane, common: connections - lane * threads }
    }
}

impl Pools {
    pub(crate) fn new(settings: DatabaseSettings) -> Result<Self, InvalidDatabaseSettings> {
        let plan = Plan::of(settings.pool_size, available_parallelism().map_or(1, usize::from));
        Self::of(plan, settings)
    }

    fn of(plan: Plan, settings: DatabaseSettings) -> Result<Self, InvalidDatabaseSettings> {
        let common = Database::new(&DatabaseSettings { pool_size: plan.common, ..settings.clone() })?;
        let settings = DatabaseSettings { pool_size: plan.lane, ..settings };
        Ok(Self { common, of_threads: Arc::default(), plan, settings })
    }

    /// Number of threads that call [`Self::open`].
    pub(crate) fn threads(&self) -> usize {
        self.plan.threads
    }

    pub(crate) fn open(&self) {
        if self.plan.lane == 0 {
            return;
        }
        if let Err(error) = self.of_threads.get_or_try(|| Database::new(&self.settings)) {
            // The shared pool has the same settings, so the process continues.
            tracing::warn!(%error, "thread has no own connections; it uses the shared ones");
        }
    }

    /// Returns a free connection of this thread, else a shared one, else one of another thread. If
    /// none is free, waits for the first own or shared one.
    pub(crate) async fn conn(&self) -> DbResult<Pooled> {
        let own = self.of_threads.get();
        let mut refused = None;
        let ours = own.into_iter().chain([&self.common]).map(|pool| (pool, true));
        for (pool, may_grow) in ours.chain(self.of_threads.iter().map(|pool| (pool, false))) {
            // This thread serves the connections that it opens here. It opens none after a failed
            // attempt.
            let is_asked = has_idle(pool) || (may_grow && refused.is_none());
            if !is_asked {
                continue;
            }
            match pool.free_conn().await {
                Ok(Some(conn)) => return Ok(conn),
                Ok(None) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match (refused, own) {
            (Some(error), _) => Err(error),
            (None, None) => self.common.conn().await,
            (None, Some(own)) => match select(pin!(own.conn()), pin!(self.common.conn())).await {
                Either::Left((conn, _)) | Either::Right((conn, _)) => conn,
            },
        }
    }

    pub(crate) fn common(&self) -> &Database {
        &self.common
    }

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

    pub(crate) fn close(&self) {
        self.common.close();
        self.of_threads.iter().for_each(Database::close);
    }
}

fn has_idle(pool: &Database) -> bool {
    let PoolStatus { open, in_use, .. } = pool.pool_status();
    open > in_use
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use test_support::TestDatabase;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn pool_sizes_sum_up_to_the_setting() {
        assert_eq!(Plan::of(10, 2), Plan { threads: 2, lane: 3, common: 4 });
        assert_eq!(Plan::of(10, 64), Plan { threads: 2, lane: 3, common: 4 });
        assert_eq!(Plan::of(100, 64), Plan { threads: 25, lane: 2, common: 50 });
        assert_eq!(Plan::of(4, 8), Plan { threads: 2, lane: 1, common: 2 });
        assert_eq!(Plan::of(1, 8), Plan { threads: 2, lane: 0, common: 1 });
        let all = (1..200).flat_map(|connections| [1, 2, 3, 8, 64].map(|cores| (connections, cores)));
        for (connections, cores) in all {
            let plan = Plan::of(connections, cores);
            assert_eq!(plan.lane * plan.threads + plan.common, connections, "{plan:?}");
            assert!(plan.common >= 1 && (1..=cores).contains(&plan.threads), "{plan:?}");
        }
    }

    fn lanes(url: &str) -> Pools {
        let settings = DatabaseSettings { connect_timeout: PATIENCE, ..DatabaseSettings::new(url, "lanes") };
        let lanes = Pools::of(Plan { threads: 2, lane: 1, common: 2 }, settings).unwrap();
        lanes.open();
        lanes
    }

    fn used(lanes: &Pools) -> (usize, usize, usize) {
        let own = lanes.of_threads.get().map_or(0, |own| own.pool_status().in_use);
        (own, lanes.common.pool_status().in_use, lanes.status().in_use)
    }

    #[tokio::test]
    async fn conn_prefers_own_pool_then_shared_then_others() {
        let db = TestDatabase::new().await;
        let lanes = lanes(db.url());
        let own = lanes.conn().await.unwrap();
        assert_eq!(used(&lanes), (1, 0, 1));
        let common = [lanes.conn().await.unwrap(), lanes.conn().await.unwrap()];
        assert_eq!(used(&lanes), (1, 2, 3));
        // All are in use: the first that returns is taken, from any pool.
        let back = async {
            tokio::task::yield_now().await;
            drop(own);
        };
        let (next, ()) = tokio::join!(lanes.conn(), back);
        assert_eq!(used(&lanes), (1, 2, 3));
        drop((next, common));
        assert_eq!(used(&lanes), (0, 0, 0));
        lanes.close();
        assert!(lanes.conn().await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn thread_without_lane_borrows_a_free_connection() {
        let db = TestDatabase::new().await;
        let lanes = lanes(db.url());
        drop(lanes.conn().await.unwrap());
        let elsewhere = lanes.clone();
        let taken = tokio::task::spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(async {
                let taken = [elsewhere.conn().await, elsewhere.conn().await, elsewhere.conn().await]
                    .map(Result::unwrap);
                assert!(elsewhere.of_threads.get().is_none());
                taken
            })
        });
        let taken = taken.await.unwrap();
        assert_eq!(lanes.status().in_use, 3);
        drop(taken);
    }
}
