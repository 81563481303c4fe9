//! The effect of a write of a definition.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The resource is new.
    Created,
    /// The resource was different before.
    Updated,
    /// The resource was equal before; nothing was written.
    Unchanged,
}
