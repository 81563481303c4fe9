//! One field of a crontab expression: text to a set of values, and back to its normal text.
//!
//! The grammar is ours and complete here; no other parser sees a user's text. It says nothing about how fields
//! combine or when they match. Pure functions on bounded input; the one failure is an error that names the field,
//! the offending text and what is allowed.

use super::{
    super::error::{Quoted, ScheduleError},
    values::{Kind, ValueSet, Weekdays},
};

/// A member of a day field that is no plain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Special {
    /// `L-n`: n days before the last day of the month; `L` is `L-0`.
    LastDay(u8),
    /// `LW`: the last Monday-to-Friday day of the month.
    LastWorkday,
    /// `nW`: the Monday-to-Friday day nearest to day n, within the month.
    NearestWorkday(u8),
    /// `d#k`: the k-th such weekday of the month.
    NthWeekday(u8, u8),
    /// `dL`: the last such weekday of the month.
    LastWeekday(u8),
}

impl Special {
    /// Whether it selects by weekday and so belongs to the day-of-week field.
    pub(super) fn is_weekday(self) -> bool {
        matches!(self, Self::NthWeekday(..) | Self::LastWeekday(_))
    }
}

/// A parsed field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// It is `*` as a whole.
    pub(super) star: bool,
    /// It starts with this `*/n`; kept because a leading star decides how the schedule meets daylight saving.
    pub(super) leading_step: Option<u8>,
    /// The plain values; weekdays count from Sunday = 0.
    pub(super) values: ValueSet,
    /// The other members, sorted, each once.
    pub(super) specials: Vec<Special>,
}

impl Field {
    pub(super) fn any(kind: Kind) -> Self {
        Self { star: true, leading_step: None, values: ValueSet::all(kind), specials: Vec::new() }
    }

    pub(super) fn starts_with_star(&self) -> bool {
        self.star || self.leading_step.is_some()
    }

    pub(super) fn parse(kind: Kind, weekdays: Weekdays, text: &str) -> Result<Self, ScheduleError> {
        let reader = Reader { kind, weekdays };
        if text.is_empty() {
            return Err(reader.refuse(text, "is empty"));
        }
        if matches!(text, "*" | "?" | "*/1") {
            return Ok(Self::any(kind));
        }
        let mut field =
            Self { star: false, leading_step: None, values: ValueSet::default(), specials: Vec::new() };
        for (position, item) in text.split(',').enumerate() {
            if let Some(step) = reader.step_of_star(item)? {
                field.values.insert_steps(kind.min(), kind.max(), step);
                // Steps over weekdays start at another day in each numbering; their values say it for both.
                if position == 0 && kind != Kind::DayOfWeek {
                    field.leading_step = Some(step);
                }
            } else if let Some(special) = reader.special(item)? {
                field.specials.push(special);
            } else {
                reader.range(item, &mut field.values)?;
            }
        }
        if kind == Kind::DayOfWeek {
            field.values = field.values.weekdays_from(weekdays);
        }
        field.specials.sort_unstable();
        field.specials.dedup();
        Ok(field)
    }

    /// The normal text: parsing it as crontab yields the same field.
    pub(super) fn print(&self, kind: Kind) -> String {
        if self.star {
            return "*".to_owned();
        }
        let mut items = Vec::new();
        let mut rest = self.values;
        if let Some(step) = self.leading_step {
            items.push(format!("*/{step}"));
            let mut covered = ValueSet::default();
            covered.insert_steps(kind.min(), kind.max(), step);
            rest = rest.without(covered);
        }
        rest.print(kind, &mut items);
        items.extend(self.specials.iter().map(|special| match special {
            Special::LastDay(0) => "L".to_owned(),
            Special::LastDay(before) => format!("L-{before}"),
            Special::LastWorkday => "LW".to_owned(),
            Special::NearestWorkday(day) => format!("{day}W"),
            Special::NthWeekday(day, nth) => format!("{}#{nth}", kind.print_value(*day)),
            Special::LastWeekday(day) => format!("{}L", kind.print_value(*day)),
        }));
        items.join(",")
    }
}

/// The rules of one field, for the pieces of its text.
struct Reader {
    kind: Kind,
    weekdays: Weekdays,
}

impl Reader {
    fn refuse(&self, text: &str, what: &str) -> ScheduleError {
        let allowed = self.kind.allowed(self.weekdays);
        ScheduleError::invalid(self.kind.name(), format!("{} {what}; allowed are {allowed}", Quoted(text)))
    }

    /// `*/n` gives n.
    fn step_of_star(&self, item: &str) -> Result<Option<u8>, ScheduleError> {
        match item.split_once('/') {
            Some(("*", "1")) => Err(self.refuse(item, "matches everything, so it must be the whole field")),
            Some(("*", step)) => self.step(step, item).map(Some),
            Some(("?", _)) => Err(self.refuse(item, "has a step after `?`, write `*/n`")),
            _ => Ok(None),
        }
    }

    fn step(&self, text: &str, item: &str) -> Result<u8, ScheduleError> {
        let widest = self.kind.max() - self.kind.min();
        number(text).filter(|step| (1..=widest).contains(step)).ok_or_else(|| {
            self.refuse(item, &format!("has a bad step, which is a whole number from 1 to {widest}"))
        })
    }

    fn value(&self, text: &str, item: &str) -> Result<u8, ScheduleError> {
        self.kind.parse_value(text, self.weekdays).ok_or_else(|| {
            if text == item {
                self.refuse(item, "is not a value of this field")
            } else {
                self.refuse(item, &format!("has {}, which is not a value of this field", Quoted(text)))
            }
        })
    }

    /// `a`, `a-b`, `a/n` or `a-b/n`; `a` greater than `b` goes round the end.
    fn range(&self, item: &str, into: &mut ValueSet) -> Result<(), ScheduleError> {
        if item.is_empty() {
            return Err(self.refuse(item, "is an empty place in the list"));
        }
        if matches!(item, "*" | "?") {
            return Err(self.refuse(item, "stands beside other values, but it must be the whole field"));
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step, item)?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (self.value(first, item)?, self.value(last, item)?),
            None => {
                let first = self.value(range, item)?;
                (first, if step.is_some() { self.kind.max() } else { first })
            }
        };
        into.insert_ring(self.kind, first, last, step.unwrap_or(1));
        Ok(())
    }

    fn special(&self, item: &str) -> Result<Option<Special>, ScheduleError> {
        match self.kind {
            Kind::Day => self.day_special(&item.to_ascii_uppercase(), item),
            Kind::DayOfWeek => self.weekday_special(item),
            Kind::Minute | Kind::Hour | Kind::Month => Ok(None),
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

    /// The field form's `last`, `2nd fri` and `last fri`.
    fn position(&self, item: &str) -> Result<Option<Special>, ScheduleError> {
        let lower = item.to_ascii_lowercase();
        if lower == "last" {
            return Ok(Some(Special::LastDay(0)));
        }
        let Some((position, weekday)) = lower.split_once(' ') else { return Ok(None) };
        let weekday = Kind::DayOfWeek
            .parse_name(weekday.trim(), Weekdays::FromSunday)
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

/// A whole number of at most three digits and nothing else: no sign, no blank.
pub(super) fn number(text: &str) -> Option<u8> {
    let digits = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number over 255 is out of range of every field, which is all the caller wants to know.
    if digits { text.parse().ok() } else { None }
}
