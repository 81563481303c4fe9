//! Cron expressions with a job-specific minute: `0 2 * * *` as `H 2 * * *`.
//!
//! `H` is stable for the job, as `sched_timetable::cron` defines it. A plain `H` in the minute
//! field is `hash::below(60, key, "minute")`; `H/n` is every n minutes from `hash::below(n, key,
//! "minute")` on. Only the minute moves, and only if the meaning stays the same: a single minute,
//! every n minutes, or a list that equals every n minutes, provided the hour field still follows
//! elapsed time over a clock change. Pure.

use super::hash;

const MINUTES: u64 = 60;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadExpression {
    pub expression: String,
    /// With the minutes of `H` under the key.
    pub resolved: String,
}

/// Replaces the minute by `H`, if the meaning is the same; `key` is the key of the hash.
///
/// Takes five fields, or six with the second first, that `CronSpec` has accepted.
#[must_use]
pub fn spread_expression(expression: &str, key: &str) -> Option<SpreadExpression> {
    let fields: Vec<&str> = expression.split_ascii_whitespace().collect();
    let at = fields.len().checked_sub(5).filter(|at| *at <= 1)?;
    let (minute, hour) = (fields.get(at)?, fields.get(at + 1)?);
    let (hashed, resolved) = match every(minute, hour.starts_with('*'))? {
        MINUTES => ("H".to_owned(), hash::below(MINUTES, key, b"minute").to_string()),
        step => (format!("H/{step}"), format!("{}-59/{step}", hash::below(step, key, b"minute"))),
    };
    let with = |word: &str| {
        let words = fields.iter().enumerate().map(|(index, field)| if index == at { word } else { field });
        words.collect::<Vec<_>>().join(" ")
    };
    Some(SpreadExpression { expression: with(&hashed), resolved: with(&resolved) })
}

/// The distance of a field's minutes, [`MINUTES`] for a single one; `None` if uneven.
///
/// A list becomes `H/n`, which follows elapsed time, only if the expression already does that.
fn every(minute: &str, follows_elapsed_time: bool) -> Option<u64> {
    if let Some(step) = minute.strip_prefix("*/") {
        // Other steps leave an uneven rest, which another offset would move.
        return step.parse().ok().filter(|step| *step > 1 && MINUTES.is_multiple_of(*step));
    }
    let minutes: Vec<u64> = minute.split(',').map(|item| item.parse().ok()).collect::<Option<_>>()?;
    let (first, rest) = minutes.split_first()?;
    let Some(second) = rest.first() else { return Some(MINUTES) };
    let step = second.checked_sub(*first)?;
    let even = minutes.windows(2).all(|pair| matches!(pair, [left, right] if left + step == *right));
    let whole = *first < step && u64::try_from(minutes.len()).is_ok_and(|count| count * step == MINUTES);
    (follows_elapsed_time && even && whole).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(expression: &str) -> Option<(String, String)> {
        let spread = spread_expression(expression, "backup")?;
        Some((spread.expression, spread.resolved))
    }

    #[test]
    fn equivalent_expressions_are_spread_by_hash() {
        // 0x4c6cdfe0aacd689a, the number of `backup`, is 34 modulo 60, 4 modulo 15 and 4 modulo 30.
        for (given, written, resolved) in [
            ("0 2 * * *", "H 2 * * *", "34 2 * * *"),
            ("  30   2 * *\tMON ", "H 2 * * MON", "34 2 * * MON"),
            ("05 */2 * * *", "H */2 * * *", "34 */2 * * *"),
            ("*/15 * * * *", "H/15 * * * *", "4-59/15 * * * *"),
            ("*/30 2 * * *", "H/30 2 * * *", "4-59/30 2 * * *"),
            ("0,30 * * * *", "H/30 * * * *", "4-59/30 * * * *"),
            ("5,20,35,50 */3 * * *", "H/15 */3 * * *", "4-59/15 */3 * * *"),
            ("10 0 2 * * *", "10 H 2 * * *", "10 34 2 * * *"),
        ] {
            assert_eq!(spread(given), Some((written.to_owned(), resolved.to_owned())), "{given}");
        }
    }

    #[test]
    fn non_equivalent_expressions_are_unchanged() {
        for given in [
            "* * * * *",
            "*/7 * * * *",
            "0,10 * * * *",
            "0,30 2 * * *",
            "45,0 * * * *",
            "35,50 * * * *",
            "0-30 * * * *",
            "10-50/10 * * * *",
            "H 2 * * *",
            "@daily",
            "0 2 * *",
            "",
        ] {
            assert_eq!(spread(given), None, "{given}");
        }
    }
}
