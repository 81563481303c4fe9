//! Stable numbers for a key: the first eight bytes, big endian, of SHA-256 over the key, a zero
//! byte and a word.
//!
//! Users can recompute them with standard tools. Pure.

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};

/// From 0 up to `bound`, excluded; 0 if there is no such number.
pub(super) fn below(bound: u64, key: &str, word: &[u8]) -> u64 {
    let digest = Sha256::new().chain_update(key).chain_update([0]).chain_update(word).finalize();
    let number = digest.iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    number.checked_rem(bound).unwrap_or(0)
}

/// The delay of a start: whole seconds from 0 to `most`.
///
/// It stands for the scheduler's delay, which also depends on the id of an existing job.
pub(super) fn jitter(most: u32, key: &str, fire: DateTime<Utc>) -> TimeDelta {
    if most == 0 {
        return TimeDelta::zero();
    }
    let seconds = below(u64::from(most) + 1, key, &fire.timestamp_micros().to_be_bytes());
    TimeDelta::seconds(i64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_matches_the_documented_formula() {
        // printf 'backup\0minute' | sha256sum
        let number = 0x4c6c_dfe0_aacd_689a;
        assert_eq!(below(u64::MAX, "backup", b"minute"), number);
        assert_eq!(below(60, "backup", b"minute"), number % 60);
        assert_eq!(below(0, "backup", b"minute"), 0);
    }

    #[test]
    fn a_delay_is_within_its_bound_and_stable() {
        let fire = DateTime::UNIX_EPOCH;
        assert_eq!(jitter(0, "a", fire), TimeDelta::zero());
        let delays: Vec<i64> =
            (0..1000).map(|step| jitter(9, "a", fire + TimeDelta::minutes(step)).num_seconds()).collect();
        assert_eq!(delays.iter().min(), Some(&0));
        assert_eq!(delays.iter().max(), Some(&9));
        assert_eq!(jitter(9, "a", fire), jitter(9, "a", fire));
    }
}
