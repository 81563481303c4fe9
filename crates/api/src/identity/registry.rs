//! State of authentication: the cache of identities, and the rate limits.

use std::net::IpAddr;

use sched_model::domain::ids::{SessionId, TenantId, UserId};
use sched_runtime::monotonic_clock::monotonic;

use super::cache::Cache;
use super::jwt::Tokens;
use super::rate::{Rates, address_of};
use crate::error::ApiError;

#[derive(Debug)]
pub(crate) struct Identities {
    /// The environment whose keys are accepted.
    pub(crate) environment: String,
    pub(super) tokens: Option<Tokens>,
    pub(super) cache: Cache,
    pub(super) rates: Rates,
    /// Lookups of unknown tokens, by client address.
    unauthenticated: Rates,
}

/// Lookups of unknown tokens per second and client address. The burst is twice as many.
const UNAUTHENTICATED_PER_SECOND: u32 = 50;

impl Identities {
    pub(crate) fn new(environment: String, rate: u32, tokens: Option<Tokens>) -> Self {
        let unauthenticated = Rates::new(UNAUTHENTICATED_PER_SECOND);
        Self { environment, tokens, cache: Cache::default(), rates: Rates::new(rate), unauthenticated }
    }

    /// Counts a request with an unknown token from this address.
    pub(crate) fn admit_unauthenticated(&self, address: Option<IpAddr>) -> Result<(), ApiError> {
        let taken = self.unauthenticated.take(&address_of(address), monotonic());
        taken.map_err(|_too_many| ApiError::TooManyUnauthenticated { after_seconds: 1 })
    }

    /// Takes the count back: the token was valid.
    pub(crate) fn admit_authenticated(&self, address: Option<IpAddr>) {
        self.unauthenticated.refund(&address_of(address));
    }

    /// Removes a key that this process revoked from the cache.
    pub(crate) fn forget(&self, prefix: &str) {
        self.cache.forget(|known| known.api_key.as_deref() == Some(prefix));
    }

    /// Removes a session that this process ended from the cache.
    pub(crate) fn forget_session(&self, session: SessionId) {
        self.cache.forget(|known| known.session == Some(session));
    }

    pub(crate) fn forget_tenant(&self, tenant: TenantId) {
        self.cache.forget(|known| known.tenant == tenant);
    }

    pub(crate) fn forget_user(&self, user: UserId) {
        self.cache.forget(|known| known.user == Some(user));
    }
}
