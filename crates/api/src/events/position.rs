//! A position in the event stream, opaque to clients. Pure.
//!
//! It is the key of the last sent event, or the beginning, with the time of the event and the
//! server whose transaction ids it counts. So the API detects a position of another database, of a
//! lost event, and one whose following events were removed. Lists show events before the stream may
//! send them. The position of such an event also has the point from which the stream must be read,
//! so that no event is missed.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::events::stream::{EventKey, Mark, Origin, WRITES_WITHIN};
use sched_wire::ResetReason;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    server: u32,
    pub(crate) key: EventKey,
    micros: i64,
    /// All transactions before this one had ended when the event was shown; `None` when all earlier
    /// events were visible.
    floor: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not the id of an event or of another stream message")]
pub(crate) struct NotAPosition;

impl Position {
    pub(crate) fn new(server: i64, key: EventKey, at: DateTime<Utc>) -> Self {
        let [a, b, c, d, e, f, g, h] = server.to_be_bytes();
        let server = u32::from_be_bytes([a ^ e, b ^ f, c ^ g, d ^ h]);
        Self { server, key, micros: at.timestamp_micros(), floor: None }
    }

    /// For an event that was shown while transactions ran that may write earlier events. `floor` is
    /// the oldest of them.
    pub(crate) fn above(self, floor: i64) -> Self {
        Self { floor: Some(floor).filter(|floor| *floor <= self.key.transaction), ..self }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { key: self.key, at: self.at() }
    }

    /// The stream must be read again from before this key, so that no event is missed; `None` when
    /// it continues after the event.
    pub(crate) fn floor(&self) -> Option<EventKey> {
        self.floor.map(EventKey::before)
    }

    pub(crate) fn at(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.micros).unwrap_or_default()
    }

    /// The reason why the stream cannot continue here without a gap; `None` when it can. `now` is
    /// the state of the database for the mark.
    pub(crate) fn fault(&self, now: &Origin) -> Option<ResetReason> {
        let here = Self::new(now.server, self.key, DateTime::UNIX_EPOCH);
        if self.server != here.server || self.key.transaction > now.next_transaction {
            return Some(ResetReason::OtherDatabase);
        }
        // The following events may have been written this much earlier.
        let slack = TimeDelta::from_std(WRITES_WITHIN).unwrap_or_default();
        let followed_from = self.at().checked_sub_signed(slack)?;
        if now.oldest.is_some_and(|oldest| followed_from < oldest) {
            return Some(ResetReason::Expired);
        }
        // The event was sent and is gone: later commits were lost, and their ids are used again.
        (!now.is_there).then_some(ResetReason::OtherDatabase)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, key: EventKey { transaction, id }, micros, floor } = self;
        write!(f, "{server:08x}.{transaction:x}.{id:x}.{micros:x}")?;
        floor.map_or(Ok(()), |floor| write!(f, ".{floor:x}"))
    }
}

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let number = |part: &str| -> Option<i64> {
            // `from_str_radix` also accepts signs and upper case.
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
            i64::from_str_radix(part, 16).ok().filter(|_| is_plain)
        };
        let numbers: Option<Vec<i64>> = text.split('.').map(number).collect();
        let (server, transaction, id, micros, floor) = match numbers.as_deref() {
            Some([server, transaction, id, micros]) => (*server, *transaction, *id, *micros, None),
            Some([server, transaction, id, micros, floor]) => {
                (*server, *transaction, *id, *micros, Some(*floor))
            }
            _ => return Err(NotAPosition),
        };
        let server = u32::try_from(server).map_err(|_too_large| NotAPosition)?;
        let is_above = floor.is_none_or(|floor| floor <= transaction);
        if !is_above || DateTime::from_timestamp_micros(micros).is_none() {
            return Err(NotAPosition);
        }
        Ok(Self { server, key: EventKey { transaction, id }, micros, floor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn position_round_trips() {
        for key in [EventKey::default(), EventKey { transaction: 7, id: i64::MAX }, EventKey::LAST] {
            let position = Position::new(-5, key, at("2026-11-22T05:00:00.123456Z"));
            assert_eq!(position.to_string().parse(), Ok(position));
            let listed = position.above(3);
            assert_eq!(listed.to_string().parse(), Ok(listed));
            assert_eq!(listed.floor(), (key.transaction >= 3).then_some(EventKey::before(3)), "{key:?}");
        }
        for bad in [
            "",
            "x",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.4.1.1",
            "1.2.3.+4",
            "-1.2.3.4",
            "100000000.1.1.1",
            "1.1.1.7fffffffffffffff",
            "A.1.1.1",
        ] {
            assert_eq!(bad.parse::<Position>(), Err(NotAPosition), "{bad}");
        }
    }

    #[test]
    fn foreign_and_expired_positions_are_detected() {
        let oldest = Some(at("2026-10-01T00:00:00Z"));
        let now = Origin { server: 9, next_transaction: 1000, oldest, is_there: true };
        let gone = Origin { is_there: false, ..now };
        let key = |transaction| EventKey { transaction, id: 3 };
        for (server, transaction, written, expected) in [
            (9, 10, "2026-11-22T00:00:00Z", None),
            (9, 1000, "2026-11-22T00:00:00Z", None),
            (9, 1001, "2026-11-22T00:00:00Z", Some(ResetReason::OtherDatabase)),
            (8, 10, "2026-11-22T00:00:00Z", Some(ResetReason::OtherDatabase)),
            (9, 10, "2026-09-30T23:59:59Z", Some(ResetReason::Expired)),
            (9, 10, "2026-10-01T00:01:00Z", Some(ResetReason::Expired)),
            (9, 10, "2026-10-01T00:02:00Z", None),
        ] {
            let position = Position::new(server, key(transaction), at(written));
            assert_eq!(position.fault(&now), expected, "{server} {transaction} {written}");
            let without = expected.or(Some(ResetReason::OtherDatabase));
            assert_eq!(position.fault(&gone), without, "{server} {transaction} {written}: its event is gone");
        }
    }
}
