//! How a write treats an existing job of the name.

/// Whether a job of that name may exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveMode {
    /// It must not exist.
    Create,
    /// An existing job is changed.
    Upsert,
}
