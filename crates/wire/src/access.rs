//! Tenants, users, keys, sessions and quotas.

pub(crate) mod identity;
pub(crate) mod quota;
