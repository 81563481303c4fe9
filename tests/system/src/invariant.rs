//! An invariant of the protocol, as two SQL statements.

#[derive(Debug, Clone, Copy)]
pub(crate) struct Invariant {
    pub(crate) name: &'static str,
    pub(crate) checked: &'static str,
    pub(crate) broken: &'static str,
}
