//! Rate limit per key: one token bucket each, in this process.
//!
//! Each API process has its own buckets, because a database query would cost what the limit saves.
//! Full buckets are removed, which changes nothing and bounds the size.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::error::ApiError;

/// Capacity of a bucket, in seconds of its rate.
const BURST_SECONDS: f64 = 2.0;
const MOST: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Rates {
    /// Requests per second; `None` for no limit.
    rate: Option<f64>,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    /// `rate` is the number of requests per second for each key; 0 for no limit.
    pub(crate) fn new(rate: u32) -> Self {
        Self { rate: (rate > 0).then(|| f64::from(rate)), buckets: Mutex::default() }
    }

    /// Takes one request from a bucket. The error has the time until the next token.
    pub(super) fn take(&self, key: &str, now: Instant) -> Result<(), ApiError> {
        let Some(rate) = self.rate else { return Ok(()) };
        let capacity = (rate * BURST_SECONDS).max(1.0);
        let filled = |bucket: &Bucket| {
            let since = now.saturating_duration_since(bucket.at).as_secs_f64();
            (bucket.left + since * rate).min(capacity)
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let left = buckets.get(key).map_or(capacity, filled);
        if left < 1.0 {
            // At a rate of one per second or more, a token is there within a second.
            return Err(ApiError::TooManyRequests { after_seconds: 1 });
        }
        let bucket = Bucket { left: left - 1.0, at: now };
        match buckets.get_mut(key) {
            Some(kept) => *kept = bucket,
            None => {
                if buckets.len() >= MOST {
                    buckets.retain(|_, bucket| filled(bucket) < capacity);
                }
                if buckets.len() >= MOST {
                    buckets.clear();
                }
                buckets.insert(key.to_owned(), bucket);
            }
        }
        Ok(())
    }
}

impl Rates {
    pub(super) fn refund(&self, key: &str) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(key) {
            // A refill caps it.
            bucket.left += 1.0;
        }
    }
}

/// Groups IPv6 addresses by the part that a provider assigns to one customer.
pub(super) fn address_of(address: Option<IpAddr>) -> String {
    match address {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("{:x}", u128::from(address) >> 64),
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sched_runtime::monotonic_clock::monotonic;

    use super::*;

    #[test]
    fn burst_is_followed_by_the_rate() {
        let (rates, now) = (Rates::new(10), monotonic());
        let taken = (0..100).filter(|_| rates.take("a", now).is_ok()).count();
        assert_eq!(taken, 20);
        rates.take("b", now).unwrap();
        let error = rates.take("a", now).unwrap_err();
        assert!(matches!(error, ApiError::TooManyRequests { after_seconds: 1 }), "{error:?}");
        let later = now + Duration::from_millis(510);
        assert_eq!((0..100).filter(|_| rates.take("a", later).is_ok()).count(), 5);
        let much_later = now + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| rates.take("a", much_later).is_ok()).count(), 20);
    }

    #[test]
    fn returned_token_can_be_taken_again() {
        let (rates, now) = (Rates::new(1), monotonic());
        for _ in 0..100 {
            rates.take("a", now).unwrap();
            rates.refund("a");
        }
        assert_eq!((0..100).filter(|_| rates.take("a", now).is_ok()).count(), 2);
    }

    #[test]
    fn rate_zero_means_no_limit() {
        let now = monotonic();
        let (none, one) = (Rates::new(0), Rates::new(1));
        assert_eq!((0..1000).filter(|_| none.take("a", now).is_ok()).count(), 1000);
        assert_eq!((0..1000).filter(|_| one.take("a", now).is_ok()).count(), 2);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let (rates, now) = (Rates::new(10), monotonic());
        for number in 0..MOST + 10 {
            rates.take(&number.to_string(), now).unwrap();
        }
        assert!(rates.buckets.lock().unwrap().len() <= MOST);
    }
}
