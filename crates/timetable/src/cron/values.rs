//! The kinds of fields, the values of each, and sets of such values.
//!
//! A value outside its field is `None`.

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    DayOfWeek,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weekdays {
    /// Crontab: 0 and 7 are Sunday, 1 is Monday.
    FromSunday,
    /// The field form: 0 is Monday, 6 is Sunday.
    FromMonday,
}

impl Weekdays {
    /// Counts from Sunday = 0.
    pub(super) fn counted_from_sunday(self, day: u8) -> u8 {
        match self {
            Self::FromSunday => day % 7,
            Self::FromMonday => (day + 1) % 7,
        }
    }
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::DayOfWeek => "day_of_week",
        }
    }

    pub(super) const fn min(self) -> u8 {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::DayOfWeek => 0,
            Self::Day | Self::Month => 1,
        }
    }

    pub(super) const fn max(self) -> u8 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::Day => 31,
            Self::Month => 12,
            Self::DayOfWeek => 6,
        }
    }

    /// First and last value that `H` can choose; only days that every month has.
    pub(super) const fn hash_range(self) -> (u8, u8) {
        match self {
            Self::Day => (1, 28),
            _ => (self.min(), self.max()),
        }
    }

    pub(super) fn allowed(self, weekdays: Weekdays) -> &'static str {
        match (self, weekdays) {
            (Self::Second | Self::Minute, _) => "0-59, `*`, lists, ranges, steps and H",
            (Self::Hour, _) => "0-23, `*`, lists, ranges, steps and H",
            (Self::Day, Weekdays::FromSunday) => "1-31, `*`, lists, ranges, steps, H, L, L-n, LW and nW",
            (Self::Day, Weekdays::FromMonday) => {
                "1-31, `*`, lists, ranges, steps, H, L, L-n, LW, nW, `last` and `1st mon` to `last sun`"
            }
            (Self::Month, _) => "1-12 or JAN-DEC, `*`, lists, ranges, steps and H",
            (Self::DayOfWeek, Weekdays::FromSunday) => {
                "0-7 (0 and 7 are Sunday) or SUN-SAT, `*`, lists, ranges, steps, H, n#k and nL"
            }
            (Self::DayOfWeek, Weekdays::FromMonday) => {
                "0-6 (0 is Monday) or mon-sun, `*`, lists, ranges, steps, H, n#k and nL"
            }
        }
    }

    pub(super) fn parse_value(self, text: &str, weekdays: Weekdays) -> Option<u8> {
        let max = match (self, weekdays) {
            (Self::DayOfWeek, Weekdays::FromSunday) => 7,
            _ => self.max(),
        };
        number(text)
            .filter(|value| (self.min()..=max).contains(value))
            .or_else(|| self.parse_name(text, weekdays))
    }

    pub(super) fn parse_name(self, text: &str, weekdays: Weekdays) -> Option<u8> {
        let position = |names: &[&str]| names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let index = match (self, weekdays) {
            (Self::Month, _) => position(&MONTHS)? + 1,
            (Self::DayOfWeek, Weekdays::FromSunday) => position(&WEEKDAYS)?,
            (Self::DayOfWeek, Weekdays::FromMonday) => (position(&WEEKDAYS)? + 6) % 7,
            (Self::Second | Self::Minute | Self::Hour | Self::Day, _) => return None,
        };
        u8::try_from(index).ok()
    }

    /// Weekdays by name, because their numbers are ambiguous.
    pub(super) fn print_value(self, value: u8) -> String {
        match self {
            Self::DayOfWeek => {
                WEEKDAYS.get(usize::from(value)).map_or_else(String::new, |name| (*name).to_owned())
            }
            _ => value.to_string(),
        }
    }
}

/// The values `first`, `first + step`, … up to `last`; they wrap if `first` is greater.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    pub(super) first: u8,
    pub(super) last: u8,
    pub(super) step: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ValueSet(u64);

impl ValueSet {
    pub(super) fn all(kind: Kind) -> Self {
        let mut set = Self::default();
        set.insert_steps(kind.min(), kind.max(), 1);
        set
    }

    pub(super) fn insert(&mut self, value: u8) {
        self.0 |= 1_u64.checked_shl(u32::from(value)).unwrap_or(0);
    }

    pub(super) fn insert_steps(&mut self, first: u8, last: u8, step: u8) {
        for value in (first..=last).step_by(usize::from(step.max(1))) {
            self.insert(value);
        }
    }

    pub(super) fn insert_ring(&mut self, kind: Kind, ring: Ring) {
        let Ring { first, last, step } = ring;
        let size = kind.max() - kind.min() + 1;
        let length = if first <= last { last - first } else { (last + size - first) % size };
        for distance in (0..=length).step_by(usize::from(step.max(1))) {
            self.insert((first - kind.min() + distance) % size + kind.min());
        }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn contains(self, value: u8) -> bool {
        self.0.checked_shr(value.into()).is_some_and(|rest| rest & 1 == 1)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u8> {
        (0..64_u8).filter(move |value| self.0 >> value & 1 == 1)
    }

    pub(super) fn first_from(self, low: u8) -> Option<u8> {
        let rest = self.0 & u64::MAX.checked_shl(low.into()).unwrap_or(0);
        u8::try_from(rest.trailing_zeros()).ok().filter(|value| *value < 64)
    }

    pub(super) fn filtered(self, keep: impl Fn(u8) -> bool) -> Self {
        let mut set = Self::default();
        self.iter().filter(|value| keep(*value)).for_each(|value| set.insert(value));
        set
    }

    pub(super) fn weekdays_from(self, weekdays: Weekdays) -> Self {
        let mut set = Self::default();
        self.iter().for_each(|day| set.insert(weekdays.counted_from_sunday(day)));
        set
    }

    /// One stepped range if the set is one, else runs and single values.
    pub(super) fn print(self, kind: Kind, items: &mut Vec<String>) {
        let values: Vec<u8> = self.iter().collect();
        if let [first, second, .., last] = values.as_slice() {
            let step = second - first;
            let mut regular = Self::default();
            regular.insert_steps(*first, *last, step);
            if step > 1 && regular == self {
                items.push(format!("{}-{}/{step}", kind.print_value(*first), kind.print_value(*last)));
                return;
            }
        }
        for run in values.chunk_by(|left, right| left + 1 == *right) {
            match run {
                [first, _, .., last] => {
                    items.push(format!("{}-{}", kind.print_value(*first), kind.print_value(*last)));
                }
                short => items.extend(short.iter().map(|value| kind.print_value(*value))),
            }
        }
    }
}

/// At most three digits, no sign, no blank.
pub(super) fn number(text: &str) -> Option<u8> {
    let digits = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    // Over 255 is out of range of every field.
    if digits { text.parse().ok() } else { None }
}
