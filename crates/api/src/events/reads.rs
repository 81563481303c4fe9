//! Reading what lies behind in the stream of events, so that nobody else suffers from it.
//!
//! Few reads run at once, and fewer of one tenant: whoever follows a stream with a filter that nothing matches, or lists what happened once
//! in a year, waits for others of their kind and not they for them. Each read goes over a stretch of the stream that is found by trying
//! ([`Stretch`]): longer where there is little to be seen, shorter where a read takes too long. Nothing is remembered but the permits,
//! which go with whoever holds them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sched_model::domain::ids::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads at once, of all; connections of the pool that they may take.
const ALL: usize = 3;
/// Reads of one tenant at once: one less, so that there is always one for others.
const OF_TENANT: usize = 2;
/// How long one statement may take before it is given up and the stretch is made shorter.
pub(crate) const STATEMENT_WITHIN: Duration = Duration::from_secs(2);
/// A read that takes less may be followed by one of twice the stretch.
const QUICK: Duration = Duration::from_millis(200);
/// Transactions that a read goes over at first.
const FIRST: i64 = 50_000;
/// What a stretch is divided by when it was too long: it may have been doubled over an idle time, and busy times are much denser.
const SHORTER: i64 = 16;

/// Who may read now.
#[derive(Debug)]
pub(crate) struct Reads {
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<TenantId, Weak<Semaphore>>>,
}

/// Held while reading.
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
    /// Waits for a turn. `None` never happens: nobody closes what is waited for.
    pub(crate) async fn turn(&self, tenant: TenantId) -> Option<Permit> {
        let own = self.of(tenant);
        // One's own first, so that who waits for it keeps nobody else from reading.
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

/// How many transactions the next read goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch(i64);

impl Default for Stretch {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Stretch {
    /// The number of transactions.
    pub(crate) fn transactions(self) -> i64 {
        self.0
    }

    /// After a read that found so many events in that time.
    pub(crate) fn after(self, found: usize, took: Duration) -> Self {
        match (found, took < QUICK) {
            (0, true) => Self(self.0.saturating_mul(2)),
            (0, false) => self,
            (_, _) => Self(self.0.min(FIRST)),
        }
    }

    /// After a read that took too long; `None` when it cannot be shorter.
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
    fn nobody_waits_for_the_reads_of_one_tenant() {
        let reads = Reads::default();
        let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
        let turn = |tenant| reads.turn(tenant).now_or_never().flatten();
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
    fn a_stretch_grows_where_there_is_nothing_and_shrinks_where_there_is_too_much() {
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
