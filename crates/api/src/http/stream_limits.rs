//! Limits of long-running reads, shared fairly.
//!
//! A process has a fixed number of slots. One key, and all keys of one tenant together, may hold
//! only a part. A [`StreamSlot`] holds its slot while it lives. A request without a slot is
//! rejected at once; the client retries later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sched_model::domain::ids::TenantId;

use crate::error::ApiError;
use crate::identity::caller::Identity;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) all: usize,
    pub(crate) tenant: usize,
    pub(crate) key: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct StreamSlots {
    limits: Limits,
    usage: Arc<Mutex<SlotUsage>>,
}

#[derive(Debug, Default)]
struct SlotUsage {
    all: usize,
    tenants: HashMap<TenantId, usize>,
    keys: HashMap<String, usize>,
}

#[derive(Debug)]
pub(crate) struct StreamSlot {
    usage: Arc<Mutex<SlotUsage>>,
    tenant: TenantId,
    key: String,
}

impl StreamSlots {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, usage: Arc::default() }
    }

    /// Fails if the share of the key or of the tenant, or the whole limit, is used up.
    pub(crate) fn take(&self, caller: &Identity) -> Result<StreamSlot, ApiError> {
        self.take_for(caller.tenant(), caller.budget())
    }

    fn take_for(&self, tenant: TenantId, key: &str) -> Result<StreamSlot, ApiError> {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        if usage.keys.get(key).is_some_and(|count| *count >= self.limits.key) {
            return Err(ApiError::TooManyStreams { limit: self.limits.key });
        }
        let of_tenant = usage.tenants.get(&tenant).copied().unwrap_or_default();
        if of_tenant >= self.limits.tenant || usage.all >= self.limits.all {
            return Err(ApiError::TooManyFollowers);
        }
        usage.all += 1;
        *usage.tenants.entry(tenant).or_default() += 1;
        *usage.keys.entry(key.to_owned()).or_default() += 1;
        Ok(StreamSlot { usage: self.usage.clone(), tenant, key: key.to_owned() })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.all = usage.all.saturating_sub(1);
        if let Some(count) = usage.tenants.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                usage.tenants.remove(&self.tenant);
            }
        }
        if let Some(count) = usage.keys.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                usage.keys.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn key_and_tenant_have_limited_shares() {
        let slots = StreamSlots::new(Limits { all: 5, tenant: 3, key: 2 });
        let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
        let take = |tenant, key| slots.take_for(tenant, key);
        let mut held = vec![take(a, "a1").unwrap(), take(a, "a1").unwrap()];
        assert!(
            matches!(take(a, "a1"), Err(ApiError::TooManyStreams { limit: 2 })),
            "its own share is taken"
        );
        held.push(take(a, "a2").unwrap());
        assert!(matches!(take(a, "a3"), Err(ApiError::TooManyFollowers)), "the share of its tenant is");
        held.extend([take(b, "b1").unwrap(), take(b, "b1").unwrap()]);
        assert!(matches!(take(b, "b2"), Err(ApiError::TooManyFollowers)), "all are");
        held.remove(0);
        held.push(take(a, "a1").unwrap());
        drop(held);
        let usage = slots.usage.lock().unwrap();
        assert_eq!((usage.all, usage.tenants.len(), usage.keys.len()), (0, 0, 0));
    }
}
