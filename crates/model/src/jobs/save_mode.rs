//! How a write treats an existing job of the name.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveMode {
    /// The job must not exist.
    Create,
    /// An existing job is changed.
    Upsert,
}
