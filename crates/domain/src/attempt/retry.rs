//! When a failed attempt is retried.

use sched_vocabulary::text_enum;
use std::time::Duration;

use serde::{Deserialize, Serialize};

text_enum! {
    pub enum BackoffType {
        Fixed = "fixed",
        Linear = "linear",
        Exponential = "exponential",
    }
}

pub const MOST_CLASSES: usize = 50;
/// In characters.
pub const LONGEST_CLASS: usize = 100;

/// Fields of a newer release are ignored, so that an older program can run beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The first attempt included, 1 to 100; 1 means no retry.
    pub max_attempts: u32,
    /// Base of the delay, in seconds, 0 to 86,400.
    #[serde(default = "default_backoff_seconds")]
    pub backoff_seconds: u32,
    #[serde(default = "default_backoff_type")]
    pub backoff_type: BackoffType,
    /// Upper bound of the delay, in seconds, 1 to 604,800.
    #[serde(default = "default_max_backoff_seconds")]
    pub max_backoff_seconds: u32,
    /// In percent of the delay, 0 to 100. Lengthens the delay, so that many retries do not meet.
    #[serde(default = "default_jitter_percent")]
    pub jitter_percent: u8,
    /// Classes without another attempt: at most [`MOST_CLASSES`] of [`LONGEST_CLASS`] characters.
    #[serde(default)]
    pub non_retryable: Vec<String>,
}

const fn default_backoff_seconds() -> u32 {
    10
}
const fn default_backoff_type() -> BackoffType {
    BackoffType::Exponential
}
const fn default_max_backoff_seconds() -> u32 {
    3600
}
const fn default_jitter_percent() -> u8 {
    10
}

impl RetryPolicy {
    /// The policy of a function without one, with `MAX_RETRY_ATTEMPTS` attempts.
    #[must_use]
    pub fn standard(max_attempts: u32) -> Self {
        Self {
            max_attempts: max_attempts.max(1),
            backoff_seconds: default_backoff_seconds(),
            backoff_type: default_backoff_type(),
            max_backoff_seconds: default_max_backoff_seconds(),
            jitter_percent: default_jitter_percent(),
            non_retryable: Vec::new(),
        }
    }

    #[must_use]
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let mut range = |field, value: u32, low: u32, high: u32| {
            if !(low..=high).contains(&value) {
                found.push((field, format!("must be between {low} and {high}, not {value}")));
            }
        };
        range("max_attempts", self.max_attempts, 1, 100);
        range("backoff_seconds", self.backoff_seconds, 0, 86_400);
        range("max_backoff_seconds", self.max_backoff_seconds, 1, 604_800);
        range("jitter_percent", self.jitter_percent.into(), 0, 100);
        if self.non_retryable.len() > MOST_CLASSES {
            found.push(("non_retryable", format!("names more than {MOST_CLASSES} classes")));
        }
        let is_class = |class: &String| (1..=LONGEST_CLASS).contains(&class.chars().count());
        if !self.non_retryable.iter().all(is_class) {
            let message = format!("has a class that is not 1 to {LONGEST_CLASS} characters long");
            found.push(("non_retryable", message));
        }
        found
    }

    /// Delay before retry number `retry`, counted from 1.
    ///
    /// Fixed: `base`; linear: `base * n`; exponential: `base * 2^(n-1)` (DSP-3). The result is
    /// capped, then lengthened by `random` (0 to 1) times the jitter share. So a retry is never
    /// earlier than the formula.
    #[must_use]
    pub fn delay(&self, retry: u32, random: f64) -> Duration {
        let base = u64::from(self.backoff_seconds);
        let n = retry.max(1);
        let seconds = match self.backoff_type {
            BackoffType::Fixed => base,
            BackoffType::Linear => base.saturating_mul(n.into()),
            BackoffType::Exponential => base.saturating_mul(1_u64.checked_shl(n - 1).unwrap_or(u64::MAX)),
        };
        let capped = Duration::from_secs(seconds.min(self.max_backoff_seconds.into()));
        capped + capped.mul_f64(random.clamp(0.0, 1.0) * f64::from(self.jitter_percent.min(100)) / 100.0)
    }

    #[must_use]
    pub fn refusing(&self, error_class: &str) -> Self {
        let mut policy = self.clone();
        policy.non_retryable.push(error_class.to_owned());
        policy
    }

    /// Whether another attempt may follow. `failures` includes the attempt that failed with
    /// `error_class`.
    #[must_use]
    pub fn allows_another(&self, failures: u32, error_class: Option<&str>) -> bool {
        failures < self.max_attempts
            && !error_class.is_some_and(|class| self.non_retryable.iter().any(|refused| refused == class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(backoff_type: BackoffType) -> RetryPolicy {
        RetryPolicy {
            backoff_type,
            backoff_seconds: 10,
            max_backoff_seconds: 100,
            ..RetryPolicy::standard(5)
        }
    }

    #[test]
    fn delays_follow_the_formula_up_to_the_cap() {
        let seconds = |t, n: u32| policy(t).delay(n, 0.0).as_secs();
        assert_eq!([1, 2, 3].map(|n| seconds(BackoffType::Fixed, n)), [10, 10, 10]);
        assert_eq!([1, 2, 3].map(|n| seconds(BackoffType::Linear, n)), [10, 20, 30]);
        assert_eq!(
            [1, 2, 3, 4, 5, 64, 65, 4000].map(|n| seconds(BackoffType::Exponential, n)),
            [10, 20, 40, 80, 100, 100, 100, 100]
        );
    }

    #[test]
    fn jitter_only_lengthens_and_stays_within_its_share() {
        let policy = policy(BackoffType::Fixed);
        assert_eq!(policy.delay(1, 0.0), Duration::from_secs(10));
        assert_eq!(policy.delay(1, 1.0), Duration::from_secs(11));
        assert_eq!(policy.delay(1, 7.0), Duration::from_secs(11));
    }

    #[test]
    fn attempts_are_bounded_and_classes_can_be_excluded() {
        let policy = RetryPolicy { non_retryable: vec!["bad_input".into()], ..RetryPolicy::standard(3) };
        assert!(policy.allows_another(1, None));
        assert!(policy.allows_another(2, Some("exit_code")));
        assert!(!policy.allows_another(3, None));
        assert!(!policy.allows_another(1, Some("bad_input")));
        let stricter = policy.refusing("exit_code");
        assert!(
            !stricter.allows_another(1, Some("exit_code")) && !stricter.allows_another(1, Some("bad_input"))
        );
    }

    #[test]
    fn every_field_out_of_range_is_named() {
        let policy = RetryPolicy { max_attempts: 0, jitter_percent: 101, ..RetryPolicy::standard(1) };
        let fields: Vec<_> = policy.mistakes().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["max_attempts", "jitter_percent"]);
    }

    #[test]
    fn classes_are_bounded_in_number_and_length() {
        let mistakes = |classes: Vec<String>| {
            RetryPolicy { non_retryable: classes, ..RetryPolicy::standard(1) }.mistakes()
        };
        let many = |count: usize, length: usize| vec!["\u{e4}".repeat(length); count];
        assert_eq!(mistakes(many(MOST_CLASSES, LONGEST_CLASS)), []);
        for (classes, text) in [
            (many(MOST_CLASSES + 1, 1), "more than 50"),
            (many(1, LONGEST_CLASS + 1), "1 to 100"),
            (many(1, 0), "1 to 100"),
        ] {
            let found = mistakes(classes);
            assert!(
                found.len() == 1 && found[0].0 == "non_retryable" && found[0].1.contains(text),
                "{found:?}"
            );
        }
    }

    #[test]
    fn fields_of_a_newer_release_are_ignored() {
        let policy = serde_json::from_str::<RetryPolicy>(r#"{"max_attempts": 2, "budget": 5}"#).unwrap();
        assert_eq!(policy, RetryPolicy::standard(2));
    }
}
