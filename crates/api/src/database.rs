//! Access to the database: pools, reads and writes with an identity, batched triggers,
//! notifications to workers.

pub(crate) mod access;
pub(crate) mod pools;
pub(crate) mod requests;
pub(crate) mod trigger_batcher;
pub(crate) mod worker_notifier;
