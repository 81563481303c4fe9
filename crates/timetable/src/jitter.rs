//! Jitter: the delay between a fire time and the start of its run, so that jobs of one instant do
//! not start together.
//!
//! A pure function of job and fire time: a new leader, a preview and a user at a SQL prompt compute
//! the same. Take the SHA-256 over the sixteen bytes of the job's id followed by the fire time as
//! microseconds since 1970 (eight bytes, big endian). Its first eight bytes (big endian) modulo the
//! microseconds of the span, its end included, are the delay. The fire time itself does not move:
//! it is the unique key.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub fn jitter(job: Uuid, fire: DateTime<Utc>, most: Duration) -> Duration {
    let choices = u64::try_from(most.as_micros()).unwrap_or(u64::MAX - 1).min(u64::MAX - 1) + 1;
    if choices == 1 {
        return Duration::ZERO;
    }
    let digest = Sha256::new()
        .chain_update(job.as_bytes())
        .chain_update(fire.timestamp_micros().to_be_bytes())
        .finalize();
    let number = digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    Duration::from_micros(number % choices)
}

#[cfg(test)]
mod tests {

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn fire(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap_or_default()
    }

    #[test]
    fn it_is_what_postgresql_computes_by_the_documented_formula() {
        // SELECT ('x' || left(encode(sha256(uuid_send('…0001'::uuid) || int8send(1800000000000000)), 'hex'), 16))::bit(64), as an
        // unsigned number, modulo 60000001; computed with Python's hashlib.
        assert_eq!(jitter(Uuid::from_u128(1), fire(0), MINUTE), Duration::from_micros(17_701_860));
    }

    #[test]
    fn it_is_stable_and_differs_between_jobs_and_between_fires() {
        let job = Uuid::from_u128(7);
        assert_eq!(jitter(job, fire(0), MINUTE), jitter(job, fire(0), MINUTE));
        assert_ne!(jitter(job, fire(0), MINUTE), jitter(job, fire(60), MINUTE));
        assert_ne!(jitter(job, fire(0), MINUTE), jitter(Uuid::from_u128(8), fire(0), MINUTE));
    }

    #[test]
    fn it_stays_within_the_span_and_fills_it_evenly() {
        let mut quarters = [0_u32; 4];
        for second in 0..4000 {
            let delay = jitter(Uuid::from_u128(7), fire(second), MINUTE);
            assert!(delay <= MINUTE);
            quarters[usize::try_from(delay.as_secs() / 15).unwrap_or(3).min(3)] += 1;
        }
        assert!(quarters.iter().all(|count| (850..1150).contains(count)), "{quarters:?}");
    }

    #[test]
    fn no_span_is_no_delay() {
        assert_eq!(jitter(Uuid::from_u128(7), fire(0), Duration::ZERO), Duration::ZERO);
        assert!(jitter(Uuid::from_u128(7), fire(0), Duration::MAX) > Duration::ZERO);
    }
}
