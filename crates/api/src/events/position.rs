//! Where a reader of the stream of events stands, as clients hold it. Pure.
//!
//! It names the server whose transactions it counts, and when the event was written, so that a position of another database and one whose
//! followers were removed meanwhile are told from good ones. Clients keep it and send it back; they read nothing in it.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::db::event_stream::{EventKey, Origin, WRITES_WITHIN};
use sched_wire::ResetReason;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    server: u32,
    pub(crate) key: EventKey,
    micros: i64,
}

/// A position nobody was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not the id of an event, or of another message of the stream of events")]
pub(crate) struct NotAPosition;

impl Position {
    /// The position of `key`, which was written, or reached, at an instant.
    pub(crate) fn new(server: i64, key: EventKey, at: DateTime<Utc>) -> Self {
        let [a, b, c, d, e, f, g, h] = server.to_be_bytes();
        let server = u32::from_be_bytes([a ^ e, b ^ f, c ^ g, d ^ h]);
        Self { server, key, micros: at.timestamp_micros() }
    }

    /// When what stands there was written or reached.
    pub(crate) fn at(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.micros).unwrap_or_default()
    }

    /// Why reading cannot go on here without missing something; `None` when it can.
    pub(crate) fn fault(&self, now: &Origin) -> Option<ResetReason> {
        let here = Self::new(now.server, self.key, DateTime::UNIX_EPOCH);
        if self.server != here.server || self.key.transaction > now.next_transaction {
            return Some(ResetReason::OtherDatabase);
        }
        // What follows in the stream may have been written this much earlier.
        let slack = TimeDelta::from_std(WRITES_WITHIN).unwrap_or_default();
        let followed_from = self.at().checked_sub_signed(slack)?;
        now.oldest.is_some_and(|oldest| followed_from < oldest).then_some(ResetReason::Expired)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, key: EventKey { transaction, id }, micros } = self;
        write!(f, "{server:08x}.{transaction:x}.{id:x}.{micros:x}")
    }
}

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let mut parts = text.split('.');
        let mut number = || -> Option<i64> {
            let part = parts.next()?;
            // What the numbers are written as, and nothing else that could be read as one.
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
            i64::from_str_radix(part, 16).ok().filter(|_| is_plain)
        };
        let read = (number(), number(), number(), number());
        let (Some(server), Some(transaction), Some(id), Some(micros)) = read else {
            return Err(NotAPosition);
        };
        let server = u32::try_from(server).map_err(|_too_large| NotAPosition)?;
        if parts.next().is_some() || DateTime::from_timestamp_micros(micros).is_none() {
            return Err(NotAPosition);
        }
        Ok(Self { server, key: EventKey { transaction, id }, micros })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_position_survives_its_way_to_the_client_and_back() {
        for key in [EventKey::default(), EventKey { transaction: 7, id: i64::MAX }, EventKey::LAST] {
            let position = Position::new(-5, key, at("2026-11-22T05:00:00.123456Z"));
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for bad in [
            "",
            "x",
            "1.2.3",
            "1.2.3.4.5",
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
    fn positions_of_other_servers_and_of_months_that_are_gone_are_told() {
        let now = Origin { server: 9, next_transaction: 1000, oldest: Some(at("2026-10-01T00:00:00Z")) };
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
        }
    }
}
