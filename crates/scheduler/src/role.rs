//! The role of a scheduler: leader or standby.

use sched_model::domain::ids::Term;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Ready to take over.
    Standby,
    /// Leads with this term.
    Leader(Term),
}

impl Role {
    /// The term of a leader.
    #[must_use]
    pub const fn term(self) -> Option<Term> {
        match self {
            Self::Standby => None,
            Self::Leader(term) => Some(term),
        }
    }
}
