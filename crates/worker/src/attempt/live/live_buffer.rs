//! Live events of running attempts that are not written yet: in memory, bounded, best effort.
//!
//! An attempt has an entry from its first event until the database has no row of it. The byte
//! offset of each piece lets a reader detect gaps. Locks are never held across an await.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sched_model::domain::ids::{ClaimToken, DispatchId};
use tokio::sync::Notify;

use crate::backend::{LiveUpdate, Piece};
use crate::handlers::LiveEvent;

/// Maximum bytes of one attempt between two writes.
const ATTEMPT_BYTES: usize = 64 * 1024;
/// Maximum bytes of all attempts between two writes.
const ALL_BYTES: usize = 4 * 1024 * 1024;
/// Maximum pieces of one attempt between two writes. A further piece is appended to the latest
/// piece of its stream and loses its order relative to other streams.
const PIECES: usize = 64;
/// Latest output that the database keeps of a running attempt.
const KEPT_BYTES: usize = 256 * 1024;
const KEPT_PIECES: usize = 1000;
const MESSAGE_CHARS: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct LiveBuffer {
    state: Mutex<State>,
    work: Notify,
}

#[derive(Debug, Default)]
struct State {
    attempts: HashMap<ClaimToken, Attempt>,
    bytes: usize,
}

/// Identifies an attempt and its run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptKey {
    pub(crate) dispatch: DispatchId,
    pub(crate) token: ClaimToken,
}

#[derive(Debug)]
struct Attempt {
    dispatch: DispatchId,
    pieces: Vec<Piece>,
    bytes: usize,
    positions: BTreeMap<&'static str, i64>,
    last_seq: i64,
    /// Pieces up to this number were sent and must not change any more.
    offered_seq: i64,
    written: VecDeque<(i64, usize)>,
    kept_bytes: usize,
    progress: Option<(Option<f32>, String)>,
    /// The database may have rows of the attempt.
    has_rows: bool,
    is_over: bool,
}

impl State {
    /// The entry of an attempt, which exists from its first event.
    fn attempt(&mut self, key: AttemptKey) -> &mut Attempt {
        self.attempts.entry(key.token).or_insert_with(|| Attempt::new(key.dispatch))
    }
}

impl Attempt {
    fn new(dispatch: DispatchId) -> Self {
        Self {
            dispatch,
            pieces: Vec::new(),
            bytes: 0,
            positions: BTreeMap::new(),
            last_seq: 0,
            offered_seq: 0,
            written: VecDeque::new(),
            kept_bytes: 0,
            progress: None,
            has_rows: false,
            is_over: false,
        }
    }

    fn has_news(&self) -> bool {
        !self.is_over && (!self.pieces.is_empty() || self.progress.is_some())
    }

    fn push(&mut self, stream: &'static str, text: String) {
        let position = self.positions.entry(stream).or_default();
        let starts_at = *position;
        *position = position.saturating_add(i64::try_from(text.len()).unwrap_or(i64::MAX));
        self.bytes += text.len();
        let is_full = self.pieces.len() >= PIECES;
        let offered = self.offered_seq;
        let follows = |piece: &Piece| {
            piece.seq > offered
                && piece.stream == stream
                && piece.starts_at + i64::try_from(piece.content.len()).unwrap_or(0) == starts_at
        };
        let earlier = if is_full {
            self.pieces.iter_mut().rev().find(|piece| piece.stream == stream)
        } else {
            self.pieces.last_mut()
        };
        match earlier.filter(|piece| follows(piece)) {
            Some(piece) => piece.content.push_str(&text),
            None => {
                self.last_seq += 1;
                self.pieces.push(Piece { seq: self.last_seq, stream, starts_at, content: text });
            }
        }
    }

    fn skip(&mut self, stream: &'static str, bytes: usize) {
        let position = self.positions.entry(stream).or_default();
        *position = position.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Updates `written`; returns the number of its first piece.
    fn trim(&mut self) -> i64 {
        for piece in &self.pieces {
            if self.written.back().is_none_or(|(seq, _)| *seq < piece.seq) {
                self.written.push_back((piece.seq, piece.content.len()));
                self.kept_bytes += piece.content.len();
            }
        }
        while (self.kept_bytes > KEPT_BYTES || self.written.len() > KEPT_PIECES) && self.written.len() > 1 {
            if let Some((_, bytes)) = self.written.pop_front() {
                self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
            }
        }
        self.written.front().map_or(0, |(seq, _)| *seq)
    }
}

impl LiveBuffer {
    pub(crate) fn take(&self, key: AttemptKey, event: LiveEvent) -> bool {
        let mut state = self.state();
        let all_bytes = state.bytes;
        let attempt = state.attempt(key);
        let mut added = 0;
        let mut is_taken = !attempt.is_over;
        match event {
            LiveEvent::Output { stream, text } if is_taken => {
                if attempt.bytes + text.len() <= ATTEMPT_BYTES && all_bytes + text.len() <= ALL_BYTES {
                    added = text.len();
                    attempt.push(stream, text);
                } else {
                    attempt.skip(stream, text.len());
                    is_taken = false;
                }
            }
            LiveEvent::Progress { percent, message } if is_taken => {
                let percent =
                    percent.filter(|percent| percent.is_finite()).map(|percent| percent.clamp(0.0, 100.0));
                attempt.progress = Some((percent, storable(&message)));
            }
            LiveEvent::Output { .. } | LiveEvent::Progress { .. } => {}
        }
        state.bytes += added;
        drop(state);
        self.work.notify_one();
        is_taken
    }

    pub(crate) fn has_room(&self, token: ClaimToken) -> bool {
        let state = self.state();
        let own = state.attempts.get(&token).map_or(0, |attempt| attempt.bytes);
        own < ATTEMPT_BYTES / 2 && state.bytes < ALL_BYTES / 2
    }

    pub(crate) fn skip(&self, key: AttemptKey, stream: &'static str, bytes: usize) {
        self.state().attempt(key).skip(stream, bytes);
    }

    /// Ends an attempt: none of its events is written any more. Returns whether it had an open
    /// entry.
    pub(crate) fn close(&self, token: ClaimToken) -> bool {
        let mut state = self.state();
        let Some(attempt) = state.attempts.get_mut(&token) else { return false };
        let freed = attempt.bytes;
        let was_open = !std::mem::replace(&mut attempt.is_over, true);
        attempt.pieces = Vec::new();
        attempt.bytes = 0;
        attempt.progress = None;
        if !attempt.has_rows {
            state.attempts.remove(&token);
        }
        state.bytes = state.bytes.saturating_sub(freed);
        drop(state);
        self.work.notify_one();
        was_open
    }

    pub(super) async fn has_work(&self) {
        loop {
            let notified = self.work.notified();
            if self.state().attempts.values().any(|attempt| attempt.has_news() || attempt.is_over) {
                return;
            }
            notified.await;
        }
    }

    /// The unwritten events. They stay until [`Self::written`].
    pub(super) fn news(&self) -> Vec<LiveUpdate> {
        let mut state = self.state();
        let news = state.attempts.iter_mut().filter(|(_, attempt)| attempt.has_news());
        news.map(|(token, attempt)| {
            // From here on the database may have rows, even if the answer is lost.
            attempt.has_rows = true;
            attempt.offered_seq = attempt.last_seq;
            LiveUpdate {
                dispatch_id: attempt.dispatch,
                token: *token,
                pieces: attempt.pieces.clone(),
                keep_from: attempt.trim(),
                progress: attempt.progress.clone(),
            }
        })
        .collect()
    }

    pub(super) fn written(&self, news: &[LiveUpdate]) {
        let mut state = self.state();
        let mut freed = 0;
        for one in news {
            let Some(attempt) = state.attempts.get_mut(&one.token) else { continue };
            freed += forget_pieces(attempt, &one.pieces);
            if attempt.progress == one.progress {
                attempt.progress = None;
            }
        }
        state.bytes = state.bytes.saturating_sub(freed);
    }

    /// Ended attempts of which the database may still have rows.
    pub(super) fn ended(&self) -> Vec<(DispatchId, ClaimToken)> {
        let state = self.state();
        let over = state.attempts.iter().filter(|(_, attempt)| attempt.is_over);
        over.map(|(token, attempt)| (attempt.dispatch, *token)).collect()
    }

    pub(super) fn forgotten(&self, gone: &[ClaimToken]) {
        let mut state = self.state();
        for token in gone {
            state.attempts.remove(token);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves at most one piece too many or too few.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_pieces(attempt: &mut Attempt, written: &[Piece]) -> usize {
    let up_to = written.last().map_or(0, |piece| piece.seq);
    let freed =
        attempt.pieces.iter().filter(|piece| piece.seq <= up_to).map(|piece| piece.content.len()).sum();
    attempt.pieces.retain(|piece| piece.seq > up_to);
    attempt.bytes = attempt.bytes.saturating_sub(freed);
    freed
}

/// Removes NUL, which PostgreSQL rejects, and cuts the message.
fn storable(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS).map(|c| if c == '\0' { '\u{FFFD}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const TOKEN: ClaimToken = ClaimToken(7);

    const KEY: AttemptKey = AttemptKey { dispatch: DispatchId(Uuid::from_u128(1)), token: TOKEN };

    fn write_text(buffer: &LiveBuffer, stream: &'static str, text: &str) -> bool {
        buffer.take(KEY, LiveEvent::Output { stream, text: text.into() })
    }

    fn pieces(buffer: &LiveBuffer) -> Vec<(i64, &'static str, i64, String)> {
        let news = buffer.news();
        let all = news.into_iter().flat_map(|news| news.pieces);
        all.map(|piece| (piece.seq, piece.stream, piece.starts_at, piece.content)).collect()
    }

    #[test]
    fn attempt_ended_before_first_write_leaves_no_work() {
        let buffer = LiveBuffer::default();
        write_text(&buffer, "stdout", "short");
        buffer.close(TOKEN);
        assert!(buffer.news().is_empty() && buffer.ended().is_empty());
        assert_eq!(buffer.state().bytes, 0);
    }

    #[test]
    fn pieces_stay_in_order_and_count_their_bytes() {
        let buffer = LiveBuffer::default();
        for (stream, text) in [("stdout", "a"), ("stdout", "b\n"), ("stderr", "oh"), ("stdout", "c")] {
            assert!(write_text(&buffer, stream, text));
        }
        let expected = [(1, "stdout", 0, "ab\n"), (2, "stderr", 0, "oh"), (3, "stdout", 3, "c")]
            .map(|(n, s, at, t)| (n, s, at, t.to_owned()));
        assert_eq!(pieces(&buffer), expected);
        assert_eq!(pieces(&buffer), expected, "without an answer, they are sent again");
    }

    #[test]
    fn written_pieces_are_removed_and_newer_ones_kept() {
        let buffer = LiveBuffer::default();
        write_text(&buffer, "stdout", "one");
        let news = buffer.news();
        write_text(&buffer, "stdout", "two");
        write_text(&buffer, "stderr", "three");
        buffer.written(&news);
        let rest = pieces(&buffer);
        assert_eq!(
            rest.iter().map(|(_, s, at, t)| (*s, *at, t.as_str())).collect::<Vec<_>>(),
            [("stdout", 3, "two"), ("stderr", 0, "three")]
        );
        assert!(rest.iter().all(|(seq, ..)| *seq > 1) && rest[0].0 < rest[1].0, "{rest:?}");
        assert_eq!(buffer.state().bytes, 8);
        buffer.written(&buffer.news());
        assert_eq!((buffer.news().len(), buffer.state().bytes), (0, 0));
    }

    #[test]
    fn output_beyond_the_bound_leaves_a_gap() {
        let buffer = LiveBuffer::default();
        assert!(write_text(&buffer, "stdout", "head"));
        assert!(!write_text(&buffer, "stdout", &"x".repeat(ATTEMPT_BYTES)));
        assert!(write_text(&buffer, "stdout", "tail"));
        let found = pieces(&buffer);
        let at = i64::try_from(ATTEMPT_BYTES).unwrap() + 4;
        assert_eq!((found[0].2, found[1].2, found[1].3.as_str()), (0, at, "tail"));
    }

    #[test]
    fn alternating_streams_share_pieces() {
        let buffer = LiveBuffer::default();
        for number in 0..1000 {
            write_text(&buffer, ["stdout", "stderr"][number % 2], "x");
        }
        assert!(pieces(&buffer).len() <= PIECES + 2);
        let bytes: usize = pieces(&buffer).iter().map(|(.., text)| text.len()).sum();
        assert_eq!(bytes, 1000);
    }

    #[test]
    fn database_keeps_the_latest_output() {
        let buffer = LiveBuffer::default();
        let mut keep_from = 0;
        for _ in 0..20 {
            write_text(&buffer, "stdout", &"x".repeat(30_000));
            let news = buffer.news();
            keep_from = news[0].keep_from;
            buffer.written(&news);
        }
        assert_eq!(keep_from, 20 - i64::try_from(KEPT_BYTES / 30_000).unwrap() + 1);
    }

    #[test]
    fn ended_attempt_stays_until_its_rows_are_gone() {
        let buffer = LiveBuffer::default();
        buffer.take(KEY, LiveEvent::Progress { percent: Some(120.0), message: "a\0b".into() });
        let news = buffer.news();
        assert_eq!(news[0].progress, Some((Some(100.0), "a\u{FFFD}b".into())));
        buffer.close(TOKEN);
        buffer.written(&news);
        assert!(!write_text(&buffer, "stdout", "late"));
        assert_eq!(buffer.ended(), [(KEY.dispatch, TOKEN)]);
        buffer.forgotten(&[TOKEN]);
        assert!(buffer.ended().is_empty());
    }
}
