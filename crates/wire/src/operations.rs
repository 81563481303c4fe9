//! The operation of an installation: events, the audit log, processes, health.

pub(crate) mod audit;
pub(crate) mod event;
pub(crate) mod fleet;
pub(crate) mod health;
