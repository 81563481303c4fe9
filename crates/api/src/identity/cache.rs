//! Who was found to stand behind which token, for a few seconds.
//!
//! Saves a read of the database for each request. What is believed here may have been taken back since, so the time is what a
//! revocation may take to be felt everywhere. Refusals are not kept: a key works in the moment it is made. Bounded: when it is full
//! of tokens that are still believed, it begins anew.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Identity, Known};

/// How long a token is believed; with the time that a look may take, a revocation is felt within five seconds.
pub(crate) const FOR: Duration = Duration::from_secs(4);
/// Most tokens that are kept in mind.
const MOST: usize = 10_000;

/// What a token is known by; never the token itself.
pub(crate) type Fingerprint = [u8; 32];

/// The tokens that are believed.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<Fingerprint, (Identity, Instant)>>);

impl Cache {
    /// Who stands behind the token, if it is still believed.
    pub(super) fn get(&self, token: &Fingerprint, now: Instant) -> Option<Identity> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, since) = known.get(token)?;
        is_fresh(*since, now).then(|| identity.clone())
    }

    /// Believes from `since` on.
    pub(super) fn put(&self, token: Fingerprint, identity: Identity, since: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, (_, earlier)| is_fresh(*earlier, since));
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(token, (identity, since));
    }

    /// Believes no token any more that stands for one of these.
    pub(super) fn forget(&self, is_one: impl Fn(&Known) -> bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (identity, _)| !is_one(identity.known()));
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < FOR
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sched_model::domain::identity::Permissions;
    use sched_model::domain::ids::DEFAULT_TENANT;
    use sched_runtime::clock::monotonic;

    use super::*;

    fn somebody() -> Identity {
        Identity(Arc::new(Known {
            tenant: DEFAULT_TENANT,
            user: None,
            email: None,
            role: None,
            api_key: None,
            session: None,
            permissions: Permissions::default(),
            is_bounded: false,
            expires_at: None,
            actor: "somebody".to_owned(),
        }))
    }

    #[test]
    fn a_token_is_believed_for_its_time_and_no_longer() {
        let (cache, now) = (Cache::default(), monotonic());
        cache.put([1; 32], somebody(), now);
        assert!(cache.get(&[1; 32], now + FOR - Duration::from_millis(1)).is_some());
        assert!(cache.get(&[1; 32], now + FOR).is_none());
        assert!(cache.get(&[2; 32], now).is_none());
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let (cache, now) = (Cache::default(), monotonic());
        for number in 0..MOST + 10 {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&(number as u64).to_be_bytes());
            cache.put(token, somebody(), now);
        }
        assert!(cache.0.lock().unwrap().len() <= MOST);
    }
}
