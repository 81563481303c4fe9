//! One item of a field, from its text: a value, a range, steps, a special day; `H` is in `hash`.
//!
//! No other parser reads a user's text.

use super::{
    super::error::{QuotedText, ScheduleError},
    special_day::Special,
    split::BLANKS,
    values::{Kind, Ring, ValueSet, Weekdays, number},
};

pub(super) const MATCHES_EVERYTHING: &str = "matches everything, so it must be the whole field";

pub(super) struct Reader {
    pub(super) kind: Kind,
    pub(super) weekdays: Weekdays,
}

impl Reader {
    pub(super) fn refuse(&self, text: &str, what: &str) -> ScheduleError {
        let allowed = self.kind.allowed(self.weekdays);
        ScheduleError::invalid(
            self.kind.name(),
            format!("{} {what}; allowed are {allowed}", QuotedText(text)),
        )
    }

    /// `*` has step 1.
    pub(super) fn step_of_star(&self, item: &str) -> Result<Option<u8>, ScheduleError> {
        match item.split_once('/') {
            None if item == "*" => Ok(Some(1)),
            Some(("*", step)) => self.step(step, self.widest_step(), item).map(Some),
            Some(("?", _)) => Err(self.refuse(item, "has a step after `?`, write `*/n`")),
            _ => Ok(None),
        }
    }

    fn widest_step(&self) -> u8 {
        self.kind.max() - self.kind.min()
    }

    pub(super) fn step(&self, text: &str, widest: u8, item: &str) -> Result<u8, ScheduleError> {
        number(text).filter(|step| (1..=widest).contains(step)).ok_or_else(|| {
            self.refuse(item, &format!("has a bad step, which is a whole number from 1 to {widest}"))
        })
    }

    pub(super) fn value(&self, text: &str, item: &str) -> Result<u8, ScheduleError> {
        self.kind.parse_value(text, self.weekdays).ok_or_else(|| {
            if text == item {
                self.refuse(item, "is not a value of this field")
            } else {
                self.refuse(item, &format!("has {}, which is not a value of this field", QuotedText(text)))
            }
        })
    }

    /// `a`, `a-b`, `a/n` or `a-b/n`; wraps if `a` is greater than `b`.
    pub(super) fn range(&self, item: &str, into: &mut ValueSet) -> Result<(), ScheduleError> {
        if item.is_empty() {
            return Err(self.refuse(item, "is an empty place in the list"));
        }
        if item == "?" {
            return Err(self.refuse(item, "cannot be combined with other values; it must be the whole field"));
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step, self.widest_step(), item)?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (self.value(first, item)?, self.value(last, item)?),
            None => {
                let first = self.value(range, item)?;
                (first, if step.is_some() { self.kind.max() } else { first })
            }
        };
        into.insert_ring(self.kind, Ring { first, last, step: step.unwrap_or(1) });
        Ok(())
    }

    pub(super) fn special(&self, item: &str) -> Result<Option<Special>, ScheduleError> {
        match self.kind {
            Kind::Day => self.day_special(&item.to_ascii_uppercase(), item),
            Kind::DayOfWeek => self.weekday_special(item),
            Kind::Second | Kind::Minute | Kind::Hour | Kind::Month => Ok(None),
        }
    }

    fn day_special(&self, upper: &str, item: &str) -> Result<Option<Special>, ScheduleError> {
        if upper == "L" {
            return Ok(Some(Special::LastDay(0)));
        }
        if upper == "LW" {
            return Ok(Some(Special::LastWorkday));
        }
        if let Some(before) = upper.strip_prefix("L-") {
            let days = number(before).filter(|days| (1..=30).contains(days));
            return match days {
                Some(days) => Ok(Some(Special::LastDay(days))),
                None if before.ends_with('W') => {
                    Err(self.refuse(item, "combines `L-n` with `W`, which is not supported"))
                }
                None => {
                    Err(self.refuse(item, "counts back from the last day by something other than 1 to 30"))
                }
            };
        }
        if let Some(day) = upper.strip_suffix('W') {
            let day = number(day).filter(|day| (1..=31).contains(day));
            let day = day.ok_or_else(|| self.refuse(item, "needs a day from 1 to 31 before `W`"))?;
            return Ok(Some(Special::NearestWorkday(day)));
        }
        if self.weekdays == Weekdays::FromMonday { self.position(item) } else { Ok(None) }
    }

    fn position(&self, item: &str) -> Result<Option<Special>, ScheduleError> {
        let lower = item.to_ascii_lowercase();
        if lower == "last" {
            return Ok(Some(Special::LastDay(0)));
        }
        let Some((position, weekday)) = lower.split_once(' ') else { return Ok(None) };
        let weekday = Kind::DayOfWeek
            .parse_name(weekday.trim_matches(BLANKS), Weekdays::FromSunday)
            .ok_or_else(|| self.refuse(item, "names no weekday"))?;
        let nth = match position {
            "1st" => 1,
            "2nd" => 2,
            "3rd" => 3,
            "4th" => 4,
            "5th" => 5,
            "last" => return Ok(Some(Special::LastWeekday(weekday))),
            _ => return Err(self.refuse(item, "has a position other than 1st, 2nd, 3rd, 4th, 5th or last")),
        };
        Ok(Some(Special::NthWeekday(weekday, nth)))
    }

    fn weekday_special(&self, item: &str) -> Result<Option<Special>, ScheduleError> {
        if item.eq_ignore_ascii_case("L") {
            return Err(self.refuse(item, "reads differently from one cron to the next, write SAT or FRIL"));
        }
        if let Some((day, nth)) = item.split_once('#') {
            let day = self.weekdays.counted_from_sunday(self.value(day, item)?);
            let nth = number(nth).filter(|nth| (1..=5).contains(nth));
            let nth = nth.ok_or_else(|| self.refuse(item, "needs a number from 1 to 5 after `#`"))?;
            return Ok(Some(Special::NthWeekday(day, nth)));
        }
        match item.strip_suffix(['L', 'l']) {
            Some(day) => {
                Ok(Some(Special::LastWeekday(self.weekdays.counted_from_sunday(self.value(day, item)?))))
            }
            None => Ok(None),
        }
    }
}
