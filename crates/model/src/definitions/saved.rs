//! The effect of a write of a definition.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Created,
    Updated,
    /// The resource was equal before; nothing was written.
    Unchanged,
}
