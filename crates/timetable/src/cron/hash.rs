//! `H`: values that differ from job to job and are stable for each, so that jobs do not all start
//! together.
//!
//! `H` is one value of its field, `H/n` every n-th value from an offset below n, `H(a-b)` and
//! `H(a-b)/n` the same within a range; `H/1` is `*`. Without a range, a day of the month is one of
//! 1 to 28; every other field has its whole range. Weekdays count from Sunday = 0, and a range that
//! ends on Sunday ends at 7.
//!
//! Users can recompute the choice. Take the SHA-256 of the hash key, a zero byte and the name of
//! the field (`second`, `minute`, `hour`, `day`, `month`, `day_of_week`). Read its first eight
//! bytes as one big-endian number. Take the remainder by the number of values in the range, or by n
//! if there is a step. Add the range's first value. The forms of one field share the number, so
//! `H(0-29),H(30-59)` is half an hour apart.

use sha2::{Digest as _, Sha256};

use super::{
    super::error::ScheduleError,
    reader::Reader,
    values::{Kind, ValueSet, Weekdays},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HashSpec {
    /// Weekdays count from Sunday = 0 to Sunday = 7.
    range: Option<(u8, u8)>,
    step: Option<u8>,
}

impl HashSpec {
    pub(super) fn step_through_the_field(self) -> Option<u8> {
        if self.range.is_none() { self.step } else { None }
    }

    pub(super) fn values(self, kind: Kind, key: &str) -> ValueSet {
        let (first, last) = self.range.unwrap_or(kind.hash_range());
        let mut set = ValueSet::default();
        match self.step {
            Some(step) => set.insert_steps(first + below(step, kind, key), last, step),
            None => set.insert(first + below(last - first + 1, kind, key)),
        }
        if kind == Kind::DayOfWeek { set.weekdays_from(Weekdays::FromSunday) } else { set }
    }

    /// The normal text: parsing it as crontab yields the same value.
    pub(super) fn print(self, kind: Kind) -> String {
        let name = |value| kind.print_value(if kind == Kind::DayOfWeek { value % 7 } else { value });
        let range = self.range.map(|(first, last)| format!("({}-{})", name(first), name(last)));
        let step = self.step.map(|step| format!("/{step}"));
        format!("H{}{}", range.unwrap_or_default(), step.unwrap_or_default())
    }
}

fn below(size: u8, kind: Kind, key: &str) -> u8 {
    let digest = Sha256::new().chain_update(key).chain_update([0]).chain_update(kind.name()).finalize();
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(digest);
    let remainder = u64::from_be_bytes([a, b, c, d, e, f, g, h]) % u64::from(size.max(1));
    // A remainder by a `u8` is one.
    u8::try_from(remainder).unwrap_or_default()
}

impl Reader {
    /// `None` for any other item.
    pub(super) fn hashed(&self, item: &str) -> Result<Option<HashSpec>, ScheduleError> {
        let Some(rest) = item.strip_prefix(['H', 'h']) else { return Ok(None) };
        let malformed = || self.refuse(item, "is not a form of H; use `H`, `H/n`, `H(a-b)` or `H(a-b)/n`");
        let (range, rest) = match rest.strip_prefix('(') {
            Some(inside) => {
                let (range, rest) = inside.split_once(')').ok_or_else(malformed)?;
                let (first, last) = range.split_once('-').ok_or_else(malformed)?;
                (Some(self.hash_range(first, last, item)?), rest)
            }
            None => (None, rest),
        };
        let (first, last) = range.unwrap_or(self.kind.hash_range());
        let step = match rest.strip_prefix('/') {
            Some(step) => Some(self.step(step, last - first + 1, item)?),
            None if rest.is_empty() => None,
            None => return Err(malformed()),
        };
        Ok(Some(HashSpec { range, step }))
    }

    fn hash_range(&self, first: &str, last: &str, item: &str) -> Result<(u8, u8), ScheduleError> {
        let (first, last) = (self.value(first, item)?, self.value(last, item)?);
        let (first, last) = match self.kind {
            Kind::DayOfWeek => self.weekday_range(first, last),
            _ => (first, last),
        };
        if last < first {
            return Err(self.refuse(item, "has a range that ends before it begins"));
        }
        Ok((first, last))
    }

    /// Counts from Sunday = 0; Sunday as the end is 7.
    fn weekday_range(&self, first: u8, last: u8) -> (u8, u8) {
        if first == 0 && last == 7 {
            return (0, 6);
        }
        let day = |value| self.weekdays.counted_from_sunday(value);
        match (day(first), day(last)) {
            (first @ 1.., 0) => (first, 7),
            range => range,
        }
    }
}
