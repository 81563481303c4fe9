//! The position of a reader of a run's output: the attempt, and the offset in each of its streams.
//! Pure.
//!
//! Offsets count the bytes of the stored text from the beginning of a stream. So a reader can
//! continue from live output into stored output, and reads the same bytes once. Where bytes that
//! are not UTF-8 were dropped, a few may be missing or repeated.

use std::fmt;
use std::str::FromStr;

use sched_model::domain::ids::ExecutionId;
use sched_model::running::executions::Output;

/// The streams in the order of stored output.
pub(super) const STREAMS: [&str; 3] = ["stdout", "stderr", "log"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    /// `None` before the first attempt.
    pub(super) execution: Option<ExecutionId>,
    /// Whether the attempt was read to its end.
    pub(super) is_done: bool,
    /// Read bytes of each of [`STREAMS`].
    seen: [u64; STREAMS.len()],
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not the id of an event of this stream")]
pub(super) struct NotAPosition;

impl Position {
    pub(super) fn at(execution: ExecutionId) -> Self {
        Self { execution: Some(execution), ..Self::default() }
    }

    fn of(&mut self, stream: &str) -> Option<&mut u64> {
        let number = STREAMS.iter().position(|name| *name == stream)?;
        self.seen.get_mut(number)
    }

    /// Passes a piece that starts at `starts_at`. Returns its new part, and the number of bytes
    /// before it that were never read.
    pub(super) fn pass<'a>(
        &mut self,
        stream: &str,
        starts_at: u64,
        content: &'a str,
    ) -> Option<(u64, &'a str)> {
        let seen = self.of(stream)?;
        let ends_at = starts_at.saturating_add(content.len() as u64);
        if ends_at <= *seen {
            return None;
        }
        let known = usize::try_from(seen.saturating_sub(starts_at)).unwrap_or(usize::MAX);
        // Only a disturbed count gives a position inside a character; the next boundary is near.
        let rest = (known..=content.len()).find_map(|from| content.get(from..)).unwrap_or_default();
        let missed = starts_at.saturating_sub(*seen);
        *seen = ends_at;
        Some((missed, rest))
    }
}

pub(super) fn placed<'a>(stored: &'a [Output], stream: &'a str) -> impl Iterator<Item = (u64, &'a str)> {
    let mut ends_at: u64 = 0;
    stored.iter().filter(move |chunk| chunk.stream == stream).map(move |chunk| {
        let starts_at = ends_at.saturating_add(u64::try_from(chunk.dropped_bytes).unwrap_or(0));
        ends_at = starts_at.saturating_add(chunk.content.len() as u64);
        (starts_at, chunk.content.as_str())
    })
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [stdout, stderr, log] = self.seen;
        match self.execution {
            None => f.write_str("start"),
            Some(id) if self.is_done => write!(f, "{id}.end"),
            Some(id) => write!(f, "{id}.{stdout}.{stderr}.{log}"),
        }
    }
}

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        if text == "start" {
            return Ok(Self::default());
        }
        let (id, rest) = text.split_once('.').ok_or(NotAPosition)?;
        let execution = Some(ExecutionId(id.parse().map_err(|_no_uuid| NotAPosition)?));
        if rest == "end" {
            return Ok(Self { execution, is_done: true, ..Self::default() });
        }
        let numbers: Vec<u64> =
            rest.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_no_number| NotAPosition)?;
        let seen = numbers.try_into().map_err(|_wrong_count| NotAPosition)?;
        Ok(Self { execution, is_done: false, seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(content: &str, dropped_bytes: i64) -> Output {
        Output { stream: "stdout".into(), chunk: 0, content: content.into(), dropped_bytes }
    }

    #[test]
    fn what_was_told_is_not_shown_again_from_what_was_stored() {
        let whole = [chunk("one two three", 0)];
        let cut = [chunk("head", 0), chunk("tail", 92)];
        // Read live up to here, the stored output, and the new pieces.
        type Row<'a> = (u64, &'a [Output], &'a [(u64, &'a str)]);
        let table: &[Row<'_>] = &[
            (0, &whole, &[(0, "one two three")]),
            (4, &whole, &[(0, "two three")]),
            (13, &whole, &[]),
            (0, &cut, &[(0, "head"), (92, "tail")]),
            (2, &cut, &[(0, "ad"), (92, "tail")]),
            (50, &cut, &[(46, "tail")]),
            (98, &cut, &[(0, "il")]),
            (100, &cut, &[]),
            (170, &cut, &[]),
        ];
        for (seen, stored, expected) in table {
            let mut position = Position { seen: [*seen, 0, 0], ..Position::default() };
            let shown: Vec<_> =
                placed(stored, "stdout").filter_map(|(at, text)| position.pass("stdout", at, text)).collect();
            assert_eq!(shown, *expected, "after {seen}");
        }
    }

    #[test]
    fn live_pieces_are_shown_once_and_gaps_are_told() {
        let mut position = Position::default();
        assert_eq!(position.pass("stdout", 0, "abc"), Some((0, "abc")));
        assert_eq!(position.pass("stdout", 0, "abc"), None);
        assert_eq!(position.pass("stdout", 10, "k"), Some((7, "k")));
        assert_eq!(position.pass("stderr", 0, "x"), Some((0, "x")));
        assert_eq!(position.pass("other", 0, "x"), None);
    }

    #[test]
    fn a_position_survives_its_way_to_the_client_and_back() {
        let id = ExecutionId(uuid::Uuid::from_u128(5));
        let positions = [
            Position::default(),
            Position { seen: [1, u64::MAX, 3], ..Position::at(id) },
            Position { is_done: true, ..Position::at(id) },
        ];
        for position in positions {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for bad in [
            "",
            "x",
            "x.1.2.3",
            "00000000-0000-0000-0000-000000000005.1.2",
            "00000000-0000-0000-0000-000000000005.-1.2.3",
        ] {
            assert_eq!(bad.parse::<Position>(), Err(NotAPosition), "{bad}");
        }
    }
}
