//! The members of the day fields that are not plain values.

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
    pub(super) fn is_weekday(self) -> bool {
        matches!(self, Self::NthWeekday(..) | Self::LastWeekday(_))
    }
}
