//! Removal and archiving of old history.

pub mod archive;
pub mod retain;
