use std::time::Duration;

/// In bytes: a thousand jobs with room for their arguments.
pub(crate) const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Longest time in which a body must arrive: enough for the longest body over a slow line, and far
/// below the limit of a request ([`crate::http::middleware`]).
pub(crate) const BODY_WITHIN: Duration = Duration::from_secs(10);
