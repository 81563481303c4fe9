//! Routes of identities: sessions, keys, users, memberships, tenants.

pub(crate) mod api_keys;
pub(crate) mod me;
pub(crate) mod memberships;
pub(crate) mod sessions;
pub(crate) mod tenancy;
pub(crate) mod tenants;
pub(crate) mod users;
