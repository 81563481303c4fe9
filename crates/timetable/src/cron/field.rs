//! One field of a crontab expression: text to a set of values, and back to its normal text.
//!
//! Combines the items of a list; `reader` parses an item.

use super::{
    super::error::ScheduleError,
    hash::HashSpec,
    reader::{MATCHES_EVERYTHING, Reader},
    special_day::Special,
    values::{Kind, ValueSet, Weekdays, number},
};

/// Decides the behaviour at daylight-saving changes, and which days match two day fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leading {
    /// `*/n`.
    Star(u8),
    /// `H/n`.
    Hash(HashSpec),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) star: bool,
    pub(super) leading: Option<Leading>,
    /// The plain values, including those of `H`; weekdays count from Sunday = 0.
    pub(super) values: ValueSet,
    /// The plain values without those of `H`.
    written: ValueSet,
    hashed: Vec<HashSpec>,
    pub(super) specials: Vec<Special>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) weekdays: Weekdays,
    pub(super) hash_key: &'a str,
}

impl Field {
    pub(super) fn any(kind: Kind) -> Self {
        let all = ValueSet::all(kind);
        Self { star: true, values: all, written: all, ..Self::none() }
    }

    pub(super) fn none() -> Self {
        let none = ValueSet::default();
        Self {
            star: false,
            leading: None,
            values: none,
            written: none,
            hashed: Vec::new(),
            specials: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.specials.is_empty()
    }

    /// Whether the field starts with `*` or with `H/n`, which is `*/n` spread over the jobs.
    pub(super) fn is_wildcard(&self) -> bool {
        self.star || self.leading.is_some()
    }

    /// As Vixie cron sees it: `*`, `*/n` and lists that start with one of them.
    pub(super) fn starts_with_star(&self) -> bool {
        self.star || matches!(self.leading, Some(Leading::Star(_)))
    }

    pub(super) fn uses_hash(&self) -> bool {
        !self.hashed.is_empty()
    }

    pub(super) fn parse(kind: Kind, reading: Reading<'_>, text: &str) -> Result<Self, ScheduleError> {
        let reader = Reader { kind, weekdays: reading.weekdays };
        if text.is_empty() {
            return Err(reader.refuse(text, "is empty"));
        }
        let hash_step = text.strip_prefix(['H', 'h']).and_then(|rest| rest.strip_prefix('/'));
        if text == "?" || hash_step.and_then(number) == Some(1) {
            return Ok(Self::any(kind));
        }
        let mut field = Self::none();
        for (position, item) in text.split(',').enumerate() {
            if let Some(leading) = field.read_item(&reader, item)?.filter(|_| position == 0) {
                field.leading = Some(leading);
            }
        }
        if field.leading == Some(Leading::Star(1)) {
            return Ok(Self::any(kind));
        }
        if kind == Kind::DayOfWeek {
            field.written = field.written.weekdays_from(reading.weekdays);
        }
        field.specials.sort_unstable();
        field.specials.dedup();
        // The printed list must start with a step only if the original did.
        field.hashed.sort_unstable_by_key(|hashed| (hashed.step_through_the_field(), *hashed));
        field.hashed.dedup();
        let hashed = field.hashed.iter().map(|hashed| hashed.values(kind, reading.hash_key));
        field.values = hashed.fold(field.written, ValueSet::union);
        Ok(field)
    }

    /// Returns its step if a step at the start of a field matters.
    fn read_item(&mut self, reader: &Reader, item: &str) -> Result<Option<Leading>, ScheduleError> {
        let kind = reader.kind;
        if let Some(step) = reader.step_of_star(item)? {
            self.written.insert_steps(kind.min(), kind.max(), step);
            // The normal text counts weekdays from Sunday, where such a step has other days.
            let renumbered = kind == Kind::DayOfWeek && reader.weekdays == Weekdays::FromMonday;
            return Ok(Some(Leading::Star(step)).filter(|_| step == 1 || !renumbered));
        }
        if let Some(hashed) = reader.hashed(item)? {
            self.hashed.push(hashed);
            let through = hashed.step_through_the_field();
            if through == Some(1) {
                return Err(reader.refuse(item, MATCHES_EVERYTHING));
            }
            let time = matches!(kind, Kind::Minute | Kind::Hour);
            return Ok(Some(Leading::Hash(hashed)).filter(|_| time && through.is_some()));
        }
        match reader.special(item)? {
            Some(special) => self.specials.push(special),
            None => reader.range(item, &mut self.written)?,
        }
        Ok(None)
    }

    /// The normal text: parsing it as crontab yields the same field.
    pub(super) fn print(&self, kind: Kind) -> String {
        if self.star {
            return "*".to_owned();
        }
        let mut items = Vec::new();
        let mut rest = self.written;
        let mut leading_hash = None;
        match self.leading {
            Some(Leading::Star(step)) => {
                items.push(format!("*/{step}"));
                let mut covered = ValueSet::default();
                covered.insert_steps(kind.min(), kind.max(), step);
                rest = rest.without(covered);
            }
            Some(Leading::Hash(hashed)) => {
                items.push(hashed.print(kind));
                leading_hash = Some(hashed);
            }
            None => {}
        }
        rest.print(kind, &mut items);
        let others = self.hashed.iter().filter(|hashed| Some(**hashed) != leading_hash);
        items.extend(others.map(|hashed| hashed.print(kind)));
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
