//! The role of a scheduler: leader or standby.

use sched_model::domain::ids::Term;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Standby,
    Leader(Term),
}

impl Role {
    #[must_use]
    pub const fn term(self) -> Option<Term> {
        match self {
            Self::Standby => None,
            Self::Leader(term) => Some(term),
        }
    }
}
