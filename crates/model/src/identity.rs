//! Tenants, users, API keys, sessions, sign-ins, idempotency keys and the audit log.

pub mod api_keys;
pub mod audit;
pub mod idempotency;
pub mod sessions;
pub mod sign_ins;
pub mod tenants;
pub mod users;
