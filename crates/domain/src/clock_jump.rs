//! Detects jumps of the database's clock, which decides everything, against the monotonic clock of
//! this process, which only measures.
//!
//! A query reads the database's clock between request and response, so a reading is an interval on
//! the monotonic clock. Between two readings, the database's clock can advance by any value from
//! the shortest to the longest distance of the intervals. An advance outside that range by more
//! than [`MAX_DRIFT`] is a jump: the clock was set, the database is another one, or this machine
//! slept, which the monotonic clock does not count. All trust that depends on elapsed time is then
//! in doubt. A slow response widens the interval and is not a jump.
//!
//! Pure. The host's wall clock appears only in [`Reading::offset`], for display.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

/// Largest accepted difference between the advances of the two clocks.
pub const MAX_DRIFT: TimeDelta = TimeDelta::seconds(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Before the query was sent.
    pub sent: Instant,
    /// After the response had arrived.
    pub received: Instant,
    pub database: DateTime<Utc>,
}

impl Reading {
    #[must_use]
    pub fn round_trip(self) -> Duration {
        self.received.saturating_duration_since(self.sent)
    }

    /// The lead over a wall clock that showed `wall` at the request, plus or minus half the round
    /// trip.
    #[must_use]
    pub fn offset(self, wall: DateTime<Utc>) -> TimeDelta {
        self.database - wall - delta(self.round_trip() / 2)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// Least size of the jump; negative for a jump back.
    pub by: TimeDelta,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ClockWatch {
    last: Option<Reading>,
}

impl ClockWatch {
    /// Compares with the previous reading and replaces it in any case.
    pub fn observe(&mut self, reading: Reading) -> Option<Jump> {
        let before = self.last.replace(reading)?;
        let advance = reading.database - before.database;
        let shortest = delta(reading.sent.saturating_duration_since(before.received));
        let longest = delta(reading.received.saturating_duration_since(before.sent));
        let (ahead, behind) = (advance - longest, advance - shortest);
        if ahead > MAX_DRIFT {
            Some(Jump { by: ahead })
        } else if behind < -MAX_DRIFT {
            Some(Jump { by: behind })
        } else {
            None
        }
    }
}

/// A duration that does not fit is longer than any process runs.
fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds readings on arbitrary origins, in milliseconds.
    struct Origin {
        monotonic: Instant,
        database: DateTime<Utc>,
    }

    impl Origin {
        #[expect(clippy::disallowed_methods, reason = "an arbitrary start for arithmetic on instants")]
        fn new() -> Self {
            Self { monotonic: Instant::now(), database: DateTime::UNIX_EPOCH + TimeDelta::days(20_000) }
        }

        fn reading(&self, sent: u64, received: u64, database: i64) -> Reading {
            Reading {
                sent: self.monotonic + Duration::from_millis(sent),
                received: self.monotonic + Duration::from_millis(received),
                database: self.database + TimeDelta::milliseconds(database),
            }
        }
    }

    fn jump(first: (u64, u64, i64), second: (u64, u64, i64)) -> Option<i64> {
        let origin = Origin::new();
        let mut watch = ClockWatch::default();
        assert_eq!(watch.observe(origin.reading(first.0, first.1, first.2)), None, "there is nothing before");
        watch.observe(origin.reading(second.0, second.1, second.2)).map(|jump| jump.by.num_milliseconds())
    }

    #[test]
    fn equal_advance_is_no_jump() {
        for offset in [0, -3_600_000, 86_400_000] {
            assert_eq!(jump((0, 2, offset + 1), (1_000, 1_002, offset + 1_001)), None);
        }
    }

    #[test]
    fn a_jump_is_more_than_a_second_either_way() {
        for (advance, expected) in [
            (2_000, None),
            (2_001, None),
            (2_004, Some(1_002)),
            (3_600_000, Some(3_598_998)),
            (0, None),
            (-4, Some(-1_002)),
            (-3_600_000, Some(-3_600_998)),
        ] {
            // Between the readings lie 998 to 1,002 ms.
            assert_eq!(jump((0, 2, 0), (1_000, 1_002, advance)), expected, "{advance}");
        }
    }

    #[test]
    fn slow_response_is_not_a_jump() {
        // The clock may have been read at any time of the ten seconds.
        assert_eq!(jump((0, 2, 1), (1_000, 11_000, 1_001)), None);
        assert_eq!(jump((0, 2, 1), (1_000, 11_000, 10_999)), None);
        assert_eq!(jump((0, 10_000, 1), (10_001, 10_002, 10_001)), None);
        assert_eq!(jump((0, 2, 1), (1_000, 11_000, 12_500)), Some(1_499));
        assert_eq!(jump((0, 2, 1), (1_000, 11_000, -100)), Some(-1_099));
    }

    #[test]
    fn after_a_jump_the_new_clock_is_the_base() {
        let origin = Origin::new();
        let mut watch = ClockWatch::default();
        assert_eq!(watch.observe(origin.reading(0, 2, 1)), None);
        assert!(watch.observe(origin.reading(1_000, 1_002, 3_601_001)).is_some());
        assert_eq!(watch.observe(origin.reading(2_000, 2_002, 3_602_001)), None);
        assert!(watch.observe(origin.reading(3_000, 3_002, 3_001)).is_some(), "back again is a jump too");
    }

    #[test]
    fn the_offset_is_taken_from_the_middle_of_the_round_trip() {
        let origin = Origin::new();
        let wall = origin.database - TimeDelta::seconds(5);
        assert_eq!(origin.reading(0, 200, 100).offset(wall), TimeDelta::seconds(5));
        assert_eq!(origin.reading(0, 200, 100).round_trip(), Duration::from_millis(200));
    }
}
