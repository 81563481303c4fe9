//! Keeps the head and the tail of an output stream of any length in bounded memory.
//!
//! The head shows how an attempt began, the tail how it failed.

use std::collections::VecDeque;

use super::storable::{self, LONGEST_REST, is_continuation, without_cut_end};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The whole output if no bytes were dropped.
    pub head: String,
    /// Empty if no bytes were dropped.
    pub tail: String,
    pub total_bytes: u64,
    pub dropped_bytes: u64,
}

impl CapturedOutput {
    /// Lines of the worker, up to [`MOST_OF_LINES`] bytes.
    pub(super) fn of_lines(lines: &[String]) -> Self {
        let mut capture = Capture::new(MOST_OF_LINES);
        for line in lines {
            capture.push(line.as_bytes());
            capture.push(b"\n");
        }
        capture.finish()
    }
}

const MOST_OF_LINES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl Capture {
    /// Half of `limit` bytes for the head.
    pub(super) fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit: limit - head_limit, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_limit.saturating_sub(self.head.len())));
        self.head.extend_from_slice(first);
        // Only the end of a long piece can stay.
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_limit));
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        drop(self.tail.drain(..surplus));
        self.tail.extend(rest);
    }

    /// Cuts head and tail back to whole characters.
    pub(super) fn finish(self) -> CapturedOutput {
        let total_bytes = self.total;
        let mut head = self.head;
        let tail = Vec::from(self.tail);
        if (head.len() + tail.len()) as u64 == total_bytes {
            head.extend_from_slice(&tail);
            return CapturedOutput {
                head: storable::text(&head),
                tail: String::new(),
                total_bytes,
                dropped_bytes: 0,
            };
        }
        let head = without_cut_end(&head);
        let tail = without_cut_start(&tail);
        let dropped_bytes = total_bytes.saturating_sub((head.len() + tail.len()) as u64);
        CapturedOutput { head: storable::text(head), tail: storable::text(tail), total_bytes, dropped_bytes }
    }
}

/// The rest of a character whose start was dropped.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(LONGEST_REST).take_while(|byte| is_continuation(**byte)).count();
    let (_, whole) = bytes.split_at(rest);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, pieces: &[&[u8]]) -> CapturedOutput {
        let mut capture = Capture::new(limit);
        for piece in pieces {
            capture.push(piece);
        }
        capture.finish()
    }

    #[test]
    fn short_output_is_kept_completely() {
        let kept = captured(8, &[b"abc", b"", b"defgh"]);
        assert_eq!(
            kept,
            CapturedOutput { head: "abcdefgh".into(), tail: String::new(), total_bytes: 8, dropped_bytes: 0 }
        );
    }

    #[test]
    fn long_output_loses_its_middle_for_all_chunk_sizes() {
        let expected =
            CapturedOutput { head: "abcd".into(), tail: "wxyz".into(), total_bytes: 26, dropped_bytes: 18 };
        let text = b"abcdefghijklmnopqrstuvwxyz";
        assert_eq!(captured(8, &[text]), expected);
        for size in 1..text.len() {
            assert_eq!(captured(8, &text.chunks(size).collect::<Vec<_>>()), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn character_across_head_and_tail_survives_without_a_cut() {
        let kept = captured(4, &["a€".as_bytes()]);
        assert_eq!((kept.head.as_str(), kept.dropped_bytes), ("a€", 0));
    }

    #[test]
    fn cut_character_is_dropped_and_counted() {
        let kept = captured(8, &["ab€….….…€yz".as_bytes()]);
        assert_eq!((kept.head.as_str(), kept.tail.as_str()), ("ab", "yz"));
        assert_eq!(kept.total_bytes, kept.dropped_bytes + 4);
    }

    #[test]
    fn invalid_utf8_stays_within_the_bound() {
        let kept = captured(64, &[&[0xff; 100], &[0; 100], &[0x80; 100]]);
        assert_eq!((kept.total_bytes, kept.dropped_bytes >= 236), (300, true));
        assert!(kept.head.chars().chain(kept.tail.chars()).all(|c| c == '\u{FFFD}'));
        assert!(kept.head.len() + kept.tail.len() <= 3 * 64);
    }

    #[test]
    fn memory_does_not_grow_with_the_stream() {
        let mut capture = Capture::new(1024);
        for _ in 0..1000 {
            capture.push(&[b'y'; 5000]);
        }
        assert!(capture.head.capacity() + capture.tail.capacity() < 8 * 1024);
        assert_eq!(capture.finish().dropped_bytes, 5_000_000 - 1024);
    }
}
