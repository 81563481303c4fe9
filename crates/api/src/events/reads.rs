//! Reads of old events, bounded so that they do not slow other requests.
//!
//! Few reads run at once, and fewer per tenant, so a slow read delays only other such reads. Each
//! read covers a section of the stream whose length adapts ([`Stretch`]): longer where events are
//! rare, shorter where a read takes too long. Permits return when their holder is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sched_model::domain::ids::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent reads of all tenants, and so connections of the pool.
const ALL: usize = 3;
/// Concurrent reads of one tenant: one fewer, so that one is always left for other tenants.
const OF_TENANT: usize = 2;
/// Time limit of one statement. After it, the section shrinks.
pub(crate) const STATEMENT_WITHIN: Duration = Duration::from_secs(2);
/// After a faster read, the next section is twice as long.
const QUICK: Duration = Duration::from_millis(200);
/// Transactions in the first section.
const FIRST: i64 = 50_000;
/// Divisor of a section that was too long: it may have doubled over an idle time, and busy times
/// are much denser.
const SHORTER: i64 = 16;

#[derive(Debug)]
pub(crate) struct Reads {
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<TenantId, Weak<Semaphore>>>,
}

#[derive(Debug)]
pub(crate) struct Permit {
    _tenant: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Default for Reads {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL)), tenants: Mutex::default() }
    }
}

impl Reads {
    /// `None` never happens: the semaphores are never closed.
    pub(crate) async fn acquire(&self, tenant: TenantId) -> Option<Permit> {
        let own = self.of(tenant);
        // The permit of the tenant first: a tenant that waits for it blocks no other.
        let (own, all) = (own.acquire_owned().await.ok()?, self.all.clone().acquire_owned().await.ok()?);
        Some(Permit { _tenant: own, _all: all })
    }

    fn of(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|_, one| one.strong_count() > 0);
        if let Some(found) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return found;
        }
        let new = Arc::new(Semaphore::new(OF_TENANT));
        tenants.insert(tenant, Arc::downgrade(&new));
        new
    }
}

/// The number of transactions that the next read covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch(i64);

impl Default for Stretch {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Stretch {
    pub(crate) fn transactions(self) -> i64 {
        self.0
    }

    pub(crate) fn after(self, found: usize, took: Duration) -> Self {
        match (found, took < QUICK) {
            (0, true) => Self(self.0.saturating_mul(2)),
            (0, false) => self,
            (_, _) => Self(self.0.min(FIRST)),
        }
    }

    /// `None` at the minimum.
    pub(crate) fn after_too_long(self) -> Option<Self> {
        (self.0 > 1).then_some(Self((self.0 / SHORTER).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn reads_of_one_tenant_do_not_block_others() {
        let reads = Reads::default();
        let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
        let turn = |tenant| reads.acquire(tenant).now_or_never().flatten();
        let held = [turn(a).unwrap(), turn(a).unwrap()];
        assert!(turn(a).is_none(), "its share is taken");
        let other = turn(b).unwrap();
        assert!(turn(b).is_none(), "all are taken");
        drop(held);
        assert!(turn(a).is_some() && turn(b).is_some());
        drop(other);
        drop(reads.of(a));
        assert_eq!(reads.tenants.lock().unwrap().len(), 1, "who does not read is forgotten");
    }

    #[test]
    fn section_length_adapts_to_event_density() {
        let (quick, slow) = (QUICK / 2, QUICK * 2);
        let first = Stretch::default();
        let grown = first.after(0, quick).after(0, quick);
        assert_eq!(grown.transactions(), FIRST * 4);
        assert_eq!(grown.after(0, slow), grown);
        assert_eq!(grown.after(1, quick), first);
        let shorter = grown.after_too_long().unwrap();
        assert_eq!(shorter.transactions(), FIRST * 4 / SHORTER);
        assert_eq!(shorter.after(1, slow), shorter, "what is found does not make it longer");
        let least = std::iter::successors(Some(grown), |stretch| stretch.after_too_long()).last().unwrap();
        assert_eq!(least.transactions(), 1);
    }
}
