//! Triggers, runs and attempts: their output, explanation, cancellation and dead letters.

pub(crate) mod command;
pub(crate) mod dead_letter;
pub(crate) mod explain;
pub(crate) mod logs;
pub(crate) mod run;
pub(crate) mod stuck;
