//! Routes of runs and attempts.

pub(crate) mod attempt_list;
pub(crate) mod cancellations;
pub(crate) mod dead_letters;
pub(crate) mod logs;
pub(crate) mod retries;
pub(crate) mod run_list;
