//! One attempt: execution, secrets, redaction, live output, trace.

pub(crate) mod counters;
pub(crate) mod executor;
pub(crate) mod failures;
pub(crate) mod live;
pub(crate) mod redaction;
pub(crate) mod secrets;
pub(crate) mod trace;
