//! Commands for operators.

pub(crate) mod audit_events;
pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod health;
pub(crate) mod leader;
pub(crate) mod maintenance;
pub(crate) mod migrate;
pub(crate) mod status;
pub(crate) mod workers;
