//! An instant with a count.

use chrono::{DateTime, Utc};

/// An instant, or the beginning of a period, and a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub at: DateTime<Utc>,
    pub count: u32,
}
