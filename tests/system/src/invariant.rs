//! An invariant of the protocol, as two SQL statements.

/// An invariant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invariant {
    /// Number in the protocol, and the rule.
    pub(crate) name: &'static str,
    /// Statement that counts the checked items.
    pub(crate) checked: &'static str,
    /// Statement that returns the violating rows.
    pub(crate) broken: &'static str,
}
