//! Cache of authenticated tokens, for a few seconds.
//!
//! It saves one database read per request. The cache time bounds the delay of a revocation. A
//! rejected token is cached for a moment only, by its exact text: repeating it costs nothing, and a
//! newly created key works at once. A cache that is full of valid tokens is cleared.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::caller::{Caller, Identity};

/// Cache time of a valid token. With the time of a lookup, a revocation takes effect within five
/// seconds.
pub(crate) const FOR: Duration = Duration::from_secs(4);
const REFUSED_FOR: Duration = Duration::from_secs(1);
const MOST: usize = 10_000;

/// SHA-256 of the token. The cache never stores the token itself.
pub(crate) type Fingerprint = [u8; 32];

#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: Mutex<HashMap<Fingerprint, (Identity, Instant)>>,
    refused: Mutex<HashMap<Fingerprint, (String, Instant)>>,
}

impl Cache {
    pub(super) fn get(&self, token: &Fingerprint, now: Instant) -> Option<Identity> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, since) = entries.get(token)?;
        is_fresh(*since, now).then(|| identity.clone())
    }

    /// Reports whether the token has an entry, even an expired one: it is most likely still valid.
    pub(super) fn was_believed(&self, token: &Fingerprint) -> bool {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).contains_key(token)
    }

    pub(super) fn refusal(&self, token: &Fingerprint, now: Instant) -> Option<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (why, since) = refused.get(token)?;
        (now.saturating_duration_since(*since) < REFUSED_FOR).then(|| why.clone())
    }

    pub(super) fn refuse(&self, token: Fingerprint, why: String, since: Instant) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= MOST {
            refused.clear();
        }
        refused.insert(token, (why, since));
    }

    pub(super) fn put(&self, token: Fingerprint, identity: Identity, since: Instant) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST {
            entries.retain(|_, (_, earlier)| is_fresh(*earlier, since));
        }
        if entries.len() >= MOST {
            entries.clear();
        }
        entries.insert(token, (identity, since));
    }

    /// Removes all matching identities, and all rejections.
    pub(super) fn forget(&self, is_one: impl Fn(&Caller) -> bool) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, (identity, _)| !is_one(identity.caller()));
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < FOR
}

#[cfg(test)]
mod tests {
    use sched_model::domain::identity::{Permissions, Role};
    use sched_model::domain::ids::{DEFAULT_TENANT, UserId};
    use sched_model::identity::users::FoundMember;
    use sched_runtime::monotonic_clock::monotonic;

    use super::*;

    fn member() -> Identity {
        let found = FoundMember {
            tenant: DEFAULT_TENANT,
            user: UserId(uuid::Uuid::nil()),
            email: "ada@example.com".to_owned(),
            role: Role::Viewer,
            is_system_operator: false,
            is_active: true,
        };
        Identity::of_member(found, Permissions::default(), false)
    }

    #[test]
    fn token_is_cached_for_its_time() {
        let (cache, now) = (Cache::default(), monotonic());
        cache.put([1; 32], member(), now);
        assert!(cache.get(&[1; 32], now + FOR - Duration::from_millis(1)).is_some());
        assert!(cache.get(&[1; 32], now + FOR).is_none());
        assert!(cache.get(&[2; 32], now).is_none());
        assert!(cache.was_believed(&[1; 32]) && !cache.was_believed(&[2; 32]));
        cache.refuse([2; 32], "no".to_owned(), now);
        assert_eq!(cache.refusal(&[2; 32], now).as_deref(), Some("no"));
        assert_eq!(cache.refusal(&[2; 32], now + REFUSED_FOR), None);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let (cache, now) = (Cache::default(), monotonic());
        for number in 0..MOST + 10 {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&(number as u64).to_be_bytes());
            cache.put(token, member(), now);
        }
        assert!(cache.entries.lock().unwrap().len() <= MOST);
        for number in 0..MOST + 10 {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&(number as u64).to_be_bytes());
            cache.refuse(token, String::new(), now);
        }
        assert!(cache.refused.lock().unwrap().len() <= MOST);
    }
}
