//! Identifies a repeated request: its idempotency key, and the fingerprint of its content.

use sha2::{Digest as _, Sha256};

/// Equal to the limit of its column.
pub const LONGEST_KEY: usize = 200;

#[must_use]
pub fn is_key(text: &str) -> bool {
    (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

#[must_use]
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

impl Fingerprint {
    /// The separator is a line feed, which no part contains, so parts cannot be shifted.
    #[must_use]
    pub fn of(method: &str, path: &str, query: &str, body: &[u8; 32]) -> Self {
        let mut hasher = Sha256::new();
        for part in [method, path, query] {
            hasher.update(part.as_bytes());
            hasher.update(b"\n");
        }
        hasher.update(body);
        Self(hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_and_visible() {
        for good in ["a", "3f1c-…".trim_end_matches('…'), &"x".repeat(200), "\"quoted\""] {
            assert!(is_key(good), "{good}");
        }
        for bad in ["", "a b", "a\tb", "ä", &"x".repeat(201)] {
            assert!(!is_key(bad), "{bad}");
        }
    }

    #[test]
    fn every_part_of_a_request_counts() {
        let body = digest(b"{}");
        let base = Fingerprint::of("POST", "/jobs", "", &body);
        assert_eq!(base, Fingerprint::of("POST", "/jobs", "", &digest(b"{}")));
        for other in [
            Fingerprint::of("PUT", "/jobs", "", &body),
            Fingerprint::of("POST", "/job", "s", &body),
            Fingerprint::of("POST", "/jobs", "a=b", &body),
            Fingerprint::of("POST", "/jobs", "", &digest(b"{ }")),
        ] {
            assert_ne!(base, other);
        }
    }
}
