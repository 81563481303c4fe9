//! Output of lost attempts: the live output that their workers had sent.
//!
//! The transaction that ends a lost attempt copies its live output into history, so that the
//! output outlives the worker. It ends where the last write of the worker ended. The table of live
//! output is unlogged: after a crash of the database there is nothing to copy.

use std::collections::HashMap;

use diesel::sql_types::{Array, BigInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::recovery::dead_workers::OpenAttempt;
use crate::running::attempts::OutputChunk;
use crate::{Conn, DbResult};
use sched_domain::ids::ClaimToken;

/// Maximum output that one transaction copies, unless a single attempt has more. A take-over of
/// the lead waits for such a transaction.
const BYTES_AT_ONCE: i64 = 8 << 20;
/// A longer chunk is not extended.
const CHUNK_BYTES: usize = 64 << 10;

/// Output of an attempt as far as its worker had sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SentOutput {
    pub(crate) chunks: Vec<OutputChunk>,
    /// All bytes that the attempt had written, sent or skipped.
    pub(crate) bytes: i64,
}

/// Output of the first of several lost attempts.
#[derive(Debug, Default)]
pub(crate) struct LostOutput {
    /// Number of attempts that are covered, at least one of those given.
    pub(crate) attempts: usize,
    outputs: HashMap<ClaimToken, SentOutput>,
}

impl LostOutput {
    pub(crate) fn take(&mut self, token: ClaimToken) -> SentOutput {
        self.outputs.remove(&token).unwrap_or_default()
    }
}

statement! {
    Sizes<'a> = "lost_output/lost_output_sizes.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        tokens: &'a [i64] as Array<BigInt>,
    ) -> (BigInt, BigInt)
}

statement! {
    Pieces<'a> = "lost_output/lost_output_pieces.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        tokens: &'a [i64] as Array<BigInt>,
    ) -> (BigInt, Text, BigInt, Text)
}

/// Reads the output of as many of the attempts as one transaction copies.
pub(crate) async fn read<'a>(
    conn: &mut Conn,
    attempts: impl Iterator<Item = &'a OpenAttempt>,
) -> DbResult<LostOutput> {
    let attempts: Vec<&OpenAttempt> = attempts.collect();
    let (tenants, dispatches, tokens) = keys(&attempts);
    let sizes: Vec<(ClaimToken, i64)> =
        Sizes { tenants: &tenants, dispatches: &dispatches, tokens: &tokens }.load(conn).await?;
    let sizes: HashMap<ClaimToken, i64> = sizes.into_iter().collect();
    let size = |attempt: &&OpenAttempt| sizes.get(&attempt.token).copied().unwrap_or(0);
    let covered = count_within(attempts.iter().map(size), BYTES_AT_ONCE);
    let with_output: Vec<&OpenAttempt> =
        attempts.into_iter().take(covered).filter(|attempt| sizes.contains_key(&attempt.token)).collect();
    if with_output.is_empty() {
        return Ok(LostOutput { attempts: covered, ..LostOutput::default() });
    }
    let (tenants, dispatches, tokens) = keys(&with_output);
    let pieces: Vec<PieceRow> =
        Pieces { tenants: &tenants, dispatches: &dispatches, tokens: &tokens }.load(conn).await?;
    Ok(LostOutput { attempts: covered, outputs: joined(pieces) })
}

fn keys(attempts: &[&OpenAttempt]) -> (Vec<Uuid>, Vec<Uuid>, Vec<i64>) {
    (
        attempts.iter().map(|attempt| attempt.tenant_id.0).collect(),
        attempts.iter().map(|attempt| attempt.dispatch_id.0).collect(),
        attempts.iter().map(|attempt| attempt.token.0).collect(),
    )
}

/// Number of leading sizes with a sum of at most `limit`, at least one.
fn count_within(sizes: impl Iterator<Item = i64>, limit: i64) -> usize {
    let sums = sizes.scan(0_i64, |sum, size| {
        *sum = sum.saturating_add(size);
        Some(*sum)
    });
    let sums: Vec<i64> = sums.collect();
    sums.iter().take_while(|sum| **sum <= limit).count().max(1).min(sums.len())
}

/// Claim token, stream, bytes of the stream before the piece, text.
type PieceRow = (ClaimToken, String, i64, String);

/// Joins pieces in the order of claim, stream and position.
fn joined(pieces: Vec<PieceRow>) -> HashMap<ClaimToken, SentOutput> {
    let mut outputs: HashMap<ClaimToken, SentOutput> = HashMap::new();
    let mut position = (ClaimToken(0), "", 0_i64);
    for (token, stream, starts_at, content) in pieces {
        let Some(stream) = known_stream(&stream) else { continue };
        let output = outputs.entry(token).or_default();
        let ends_at = if (token, stream) == (position.0, position.1) { position.2 } else { 0 };
        let dropped_bytes = starts_at.saturating_sub(ends_at).max(0);
        let length = i64::try_from(content.len()).unwrap_or(i64::MAX);
        output.bytes = output.bytes.saturating_add(dropped_bytes).saturating_add(length);
        position = (token, stream, starts_at.saturating_add(length));
        let last = output.chunks.last_mut().filter(|chunk| chunk.stream == stream);
        match last {
            Some(chunk) if dropped_bytes == 0 && chunk.content.len() < CHUNK_BYTES => {
                chunk.content.push_str(&content);
            }
            last => {
                let chunk = last.map_or(0, |chunk| chunk.chunk.saturating_add(1));
                output.chunks.push(OutputChunk { stream, chunk, content, dropped_bytes });
            }
        }
    }
    outputs
}

/// The CHECK of the table allows the same words.
fn known_stream(stream: &str) -> Option<&'static str> {
    ["stdout", "stderr", "log"].into_iter().find(|known| *known == stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_up_to_a_gap() {
        let piece = |token, stream: &str, starts_at, text: &str| {
            (ClaimToken(token), stream.to_owned(), starts_at, text.to_owned())
        };
        let mut outputs = joined(vec![
            piece(1, "stderr", 0, "oops"),
            piece(1, "stdout", 10, "ab"),
            piece(1, "stdout", 12, "cd"),
            piece(1, "stdout", 20, "z"),
            piece(2, "stdout", 0, "x"),
        ]);
        let chunk = |stream, chunk, content: &str, dropped_bytes| OutputChunk {
            stream,
            chunk,
            content: content.to_owned(),
            dropped_bytes,
        };
        let first =
            vec![chunk("stderr", 0, "oops", 0), chunk("stdout", 0, "abcd", 10), chunk("stdout", 1, "z", 6)];
        assert_eq!(outputs.remove(&ClaimToken(1)), Some(SentOutput { chunks: first, bytes: 25 }));
        let second = vec![chunk("stdout", 0, "x", 0)];
        assert_eq!(outputs.remove(&ClaimToken(2)), Some(SentOutput { chunks: second, bytes: 1 }));
    }

    #[test]
    fn full_chunk_is_not_extended() {
        let pieces = (0..3_i64).map(|number| {
            let starts_at = number * i64::try_from(CHUNK_BYTES).unwrap();
            (ClaimToken(1), "stdout".to_owned(), starts_at, "x".repeat(CHUNK_BYTES))
        });
        let output = joined(pieces.collect()).remove(&ClaimToken(1)).unwrap();
        assert_eq!(output.chunks.iter().map(|chunk| chunk.chunk).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn transaction_copies_a_bounded_prefix() {
        for (sizes, expected) in
            [(vec![], 0), (vec![50], 1), (vec![5, 5, 1], 2), (vec![50, 1], 1), (vec![0, 0, 0], 3)]
        {
            assert_eq!(count_within(sizes.iter().copied(), 10), expected, "{sizes:?}");
        }
    }
}
