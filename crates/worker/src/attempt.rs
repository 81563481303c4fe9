//! One attempt: execution, secrets, redaction, live output, trace, result.

pub(crate) mod counters;
pub(crate) mod executor;
pub(crate) mod failures;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod in_place;
pub(crate) mod live;
pub(crate) mod redaction;
pub(crate) mod result;
pub(crate) mod secrets;
pub(crate) mod slot;
pub(crate) mod stops;
pub(crate) mod trace;
pub(crate) mod upstream;
