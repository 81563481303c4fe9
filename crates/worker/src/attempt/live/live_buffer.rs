//! What running attempts have told and the database has not been told yet. In memory, bounded, and no more than a courtesy.
//!
//! An attempt has an entry from the first thing it tells until the database holds nothing of it. Pieces count their bytes from the
//! beginning of their stream, so that a reader sees where something was dropped and can go on in the stored output afterwards. Locks
//! are held for the move of a piece, never across an await.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sched_model::domain::ids::{ClaimToken, DispatchId};
use sched_model::running::live_output::{Piece, Told};
use tokio::sync::Notify;

use crate::handlers::LiveEvent;

/// Most that one attempt may tell between two writes.
const ATTEMPT_BYTES: usize = 64 * 1024;
/// Most that all of them may.
const ALL_BYTES: usize = 4 * 1024 * 1024;
/// Pieces of one attempt between two writes; beyond, a piece is added to the last one of its stream and no longer stands in order
/// with those of the others.
const PIECES: usize = 64;
/// What the database keeps of an attempt while it runs: so much of its latest output, in so many rows.
const KEPT_BYTES: usize = 256 * 1024;
const KEPT_PIECES: usize = 1000;
/// Longest message of progress, in characters.
const MESSAGE_CHARS: usize = 500;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    work: Notify,
}

#[derive(Debug, Default)]
struct State {
    attempts: HashMap<ClaimToken, Attempt>,
    /// Bytes of all pieces that wait.
    bytes: usize,
}

#[derive(Debug)]
struct Attempt {
    dispatch: DispatchId,
    pieces: Vec<Piece>,
    /// Bytes of `pieces`.
    bytes: usize,
    /// How far each stream has come.
    positions: BTreeMap<&'static str, i64>,
    last_seq: i64,
    /// Pieces up to this number were offered to the database and must not change any more.
    offered_seq: i64,
    /// Numbers and lengths of what the database keeps.
    kept: VecDeque<(i64, usize)>,
    kept_bytes: usize,
    progress: Option<(Option<f32>, String)>,
    /// Whether the database may hold something of it.
    has_rows: bool,
    is_over: bool,
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
            kept: VecDeque::new(),
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

    /// Notes what the database keeps from now on, and from which number on it is to.
    fn keep(&mut self) -> i64 {
        for piece in &self.pieces {
            if self.kept.back().is_none_or(|(seq, _)| *seq < piece.seq) {
                self.kept.push_back((piece.seq, piece.content.len()));
                self.kept_bytes += piece.content.len();
            }
        }
        while (self.kept_bytes > KEPT_BYTES || self.kept.len() > KEPT_PIECES) && self.kept.len() > 1 {
            if let Some((_, bytes)) = self.kept.pop_front() {
                self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
            }
        }
        self.kept.front().map_or(0, |(seq, _)| *seq)
    }
}

impl Board {
    /// Takes what an attempt tells; returns whether there was room for it.
    pub(crate) fn take(&self, dispatch: DispatchId, token: ClaimToken, event: LiveEvent) -> bool {
        let mut state = self.state();
        let all_bytes = state.bytes;
        let attempt = state.attempts.entry(token).or_insert_with(|| Attempt::new(dispatch));
        let mut added = 0;
        let mut is_taken = !attempt.is_over;
        match event {
            LiveEvent::Output { stream, text } if is_taken => {
                if attempt.bytes + text.len() <= ATTEMPT_BYTES && all_bytes + text.len() <= ALL_BYTES {
                    added = text.len();
                    attempt.push(stream, text);
                } else {
                    skip(attempt, stream, text.len());
                    is_taken = false;
                }
            }
            LiveEvent::Progress { percent, message } if is_taken => {
                let percent =
                    percent.filter(|percent| percent.is_finite()).map(|percent| percent.clamp(0.0, 100.0));
                attempt.progress = Some((percent, shown(&message)));
            }
            LiveEvent::Output { .. } | LiveEvent::Progress { .. } => {}
        }
        state.bytes += added;
        drop(state);
        self.work.notify_one();
        is_taken
    }

    /// Whether a piece of output of an attempt would be taken now.
    pub(crate) fn has_room(&self, token: ClaimToken) -> bool {
        let state = self.state();
        let own = state.attempts.get(&token).map_or(0, |attempt| attempt.bytes);
        own < ATTEMPT_BYTES / 2 && state.bytes < ALL_BYTES / 2
    }

    /// Notes that a stream went on by so many bytes that are not shown.
    pub(crate) fn skip(&self, dispatch: DispatchId, token: ClaimToken, stream: &'static str, bytes: usize) {
        let mut state = self.state();
        skip(state.attempts.entry(token).or_insert_with(|| Attempt::new(dispatch)), stream, bytes);
    }

    /// Notes that an attempt is over: nothing of it is shown any more. Tells whether that is news, for one that has told something.
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

    /// Waits until there may be something to write or to take away.
    pub(super) async fn has_work(&self) {
        loop {
            let told = self.work.notified();
            if self.state().attempts.values().any(|attempt| attempt.has_news() || attempt.is_over) {
                return;
            }
            told.await;
        }
    }

    /// What is new. It stays until it is [`Self::written`].
    pub(super) fn news(&self) -> Vec<Told> {
        let mut state = self.state();
        let news = state.attempts.iter_mut().filter(|(_, attempt)| attempt.has_news());
        news.map(|(token, attempt)| {
            // From here on the database may hold something, whatever becomes of the answer.
            attempt.has_rows = true;
            attempt.offered_seq = attempt.last_seq;
            Told {
                dispatch_id: attempt.dispatch,
                token: *token,
                pieces: attempt.pieces.clone(),
                keep_from: attempt.keep(),
                progress: attempt.progress.clone(),
            }
        })
        .collect()
    }

    /// Forgets what was written.
    pub(super) fn written(&self, told: &[Told]) {
        let mut state = self.state();
        let mut freed = 0;
        for one in told {
            let Some(attempt) = state.attempts.get_mut(&one.token) else { continue };
            freed += forget_pieces(attempt, &one.pieces);
            if attempt.progress == one.progress {
                attempt.progress = None;
            }
        }
        state.bytes = state.bytes.saturating_sub(freed);
    }

    /// Attempts that are over and of which the database may still hold something.
    pub(super) fn over(&self) -> Vec<(DispatchId, ClaimToken)> {
        let state = self.state();
        let over = state.attempts.iter().filter(|(_, attempt)| attempt.is_over);
        over.map(|(token, attempt)| (attempt.dispatch, *token)).collect()
    }

    /// Forgets attempts of which the database holds nothing any more.
    pub(super) fn forgotten(&self, gone: &[ClaimToken]) {
        let mut state = self.state();
        for token in gone {
            state.attempts.remove(token);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held can have left no more than a piece too many or too few.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn skip(attempt: &mut Attempt, stream: &'static str, bytes: usize) {
    let position = attempt.positions.entry(stream).or_default();
    *position = position.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Removes what was written from what waits; returns the bytes of it.
fn forget_pieces(attempt: &mut Attempt, written: &[Piece]) -> usize {
    let up_to = written.last().map_or(0, |piece| piece.seq);
    let freed =
        attempt.pieces.iter().filter(|piece| piece.seq <= up_to).map(|piece| piece.content.len()).sum();
    attempt.pieces.retain(|piece| piece.seq > up_to);
    attempt.bytes = attempt.bytes.saturating_sub(freed);
    freed
}

/// A message that can be stored and shown on a line.
fn shown(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS).map(|c| if c == '\0' { '\u{FFFD}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const TOKEN: ClaimToken = ClaimToken(7);

    fn dispatch() -> DispatchId {
        DispatchId(Uuid::from_u128(1))
    }

    fn say(board: &Board, stream: &'static str, text: &str) -> bool {
        board.take(dispatch(), TOKEN, LiveEvent::Output { stream, text: text.into() })
    }

    fn pieces(board: &Board) -> Vec<(i64, &'static str, i64, String)> {
        let news = board.news();
        let all = news.into_iter().flat_map(|told| told.pieces);
        all.map(|piece| (piece.seq, piece.stream, piece.starts_at, piece.content)).collect()
    }

    #[test]
    fn an_attempt_that_is_over_before_the_first_write_leaves_nothing_to_do() {
        let board = Board::default();
        say(&board, "stdout", "short");
        board.close(TOKEN);
        assert!(board.news().is_empty() && board.over().is_empty());
        assert_eq!(board.state().bytes, 0);
    }

    #[test]
    fn pieces_stay_in_order_and_count_their_bytes() {
        let board = Board::default();
        for (stream, text) in [("stdout", "a"), ("stdout", "b\n"), ("stderr", "oh"), ("stdout", "c")] {
            assert!(say(&board, stream, text));
        }
        let expected = [(1, "stdout", 0, "ab\n"), (2, "stderr", 0, "oh"), (3, "stdout", 3, "c")]
            .map(|(n, s, at, t)| (n, s, at, t.to_owned()));
        assert_eq!(pieces(&board), expected);
        assert_eq!(pieces(&board), expected, "unanswered, it is told again");
    }

    #[test]
    fn what_was_written_is_not_written_again_and_what_came_meanwhile_is() {
        let board = Board::default();
        say(&board, "stdout", "one");
        let told = board.news();
        say(&board, "stdout", "two");
        say(&board, "stderr", "three");
        board.written(&told);
        let rest = pieces(&board);
        assert_eq!(
            rest.iter().map(|(_, s, at, t)| (*s, *at, t.as_str())).collect::<Vec<_>>(),
            [("stdout", 3, "two"), ("stderr", 0, "three")]
        );
        assert!(rest.iter().all(|(seq, ..)| *seq > 1) && rest[0].0 < rest[1].0, "{rest:?}");
        assert_eq!(board.state().bytes, 8);
        board.written(&board.news());
        assert_eq!((board.news().len(), board.state().bytes), (0, 0));
    }

    #[test]
    fn what_is_beyond_the_bound_is_dropped_and_leaves_a_gap() {
        let board = Board::default();
        assert!(say(&board, "stdout", "head"));
        assert!(!say(&board, "stdout", &"x".repeat(ATTEMPT_BYTES)));
        assert!(say(&board, "stdout", "tail"));
        let found = pieces(&board);
        let at = i64::try_from(ATTEMPT_BYTES).unwrap() + 4;
        assert_eq!((found[0].2, found[1].2, found[1].3.as_str()), (0, at, "tail"));
    }

    #[test]
    fn many_changes_of_stream_do_not_make_many_pieces() {
        let board = Board::default();
        for number in 0..1000 {
            say(&board, ["stdout", "stderr"][number % 2], "x");
        }
        assert!(pieces(&board).len() <= PIECES + 2);
        let bytes: usize = pieces(&board).iter().map(|(.., text)| text.len()).sum();
        assert_eq!(bytes, 1000);
    }

    #[test]
    fn the_database_keeps_the_latest_output_of_a_talkative_attempt() {
        let board = Board::default();
        let mut keep_from = 0;
        for _ in 0..20 {
            say(&board, "stdout", &"x".repeat(30_000));
            let told = board.news();
            keep_from = told[0].keep_from;
            board.written(&told);
        }
        assert_eq!(keep_from, 20 - i64::try_from(KEPT_BYTES / 30_000).unwrap() + 1);
    }

    #[test]
    fn an_attempt_with_rows_is_over_until_they_are_gone() {
        let board = Board::default();
        board.take(dispatch(), TOKEN, LiveEvent::Progress { percent: Some(120.0), message: "a\0b".into() });
        let told = board.news();
        assert_eq!(told[0].progress, Some((Some(100.0), "a\u{FFFD}b".into())));
        board.close(TOKEN);
        board.written(&told);
        assert!(!say(&board, "stdout", "late"));
        assert_eq!(board.over(), [(dispatch(), TOKEN)]);
        board.forgotten(&[TOKEN]);
        assert!(board.over().is_empty());
    }
}
