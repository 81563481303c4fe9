//! The effect of a write of a definition.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Created,
    Updated,
    /// Nothing was written.
    Unchanged,
}
