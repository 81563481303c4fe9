//! Turns: the general claims of a queue run one after another.
//!
//! Claims that overlap all read the head of the same line, which is full of runs that another claim
//! has just taken. A turn is an advisory lock in a statement before the claim: the snapshot of the claim
//! is taken in its turn, and contains all that earlier claims took. A claim that waits for its turn
//! has written nothing.
//!
//! Turns make claims cheap, and row locks make them correct. So a claim whose turn does not come in
//! time goes without it. The claim of a single run takes no turn, and neither do claims from queues
//! with limits, which run one after another in any case.

use std::collections::BTreeSet;

use crate::fault_injection::{self, Fence};

/// The class of these advisory locks; their keys are numbers of queues.
const CLASS: i32 = 1_935_895_653;

/// After this time the server ends the session of a worker that froze in its turn.
const FROZEN_AFTER_MS: u32 = 2_000;

/// Maximum wait for a turn: longer than a frozen worker keeps it.
const WAIT_MS: u32 = 3_000;

/// Begins a transaction that waits for the turn of each queue.
///
/// The settings end with the transaction. The list is evaluated from left to right: first the limit
/// of the wait, then the locks in the order of their keys, so that no two claims wait for each other.
pub(super) fn begin(queues: &[String]) -> String {
    if !fault_injection::is_active(Fence::ClaimTurn) {
        return "BEGIN".to_owned();
    }
    let keys: BTreeSet<i32> = queues.iter().map(|queue| key(queue)).collect();
    let locks: Vec<String> =
        keys.into_iter().map(|key| format!(", pg_advisory_xact_lock({CLASS}, {key})")).collect();
    format!(
        "BEGIN; SELECT set_config('idle_in_transaction_session_timeout', '{FROZEN_AFTER_MS}', true), \
         set_config('lock_timeout', '{WAIT_MS}', true){}",
        locks.concat()
    )
}

/// FNV-1a with 32 bits, the same in every release. Queues with the same key share their turns.
fn key(queue: &str) -> i32 {
    let hash =
        queue.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::{begin, key};

    #[test]
    fn keys_are_those_of_fnv1a() {
        assert_eq!(key(""), 0x811c_9dc5_u32.cast_signed());
        assert_eq!(key("a"), 0xe40c_292c_u32.cast_signed());
        assert_eq!(key("foobar"), 0xbf9c_f968_u32.cast_signed());
    }

    #[test]
    fn turns_are_taken_once_and_in_order() {
        let queues = ["foobar", "a", "foobar"].map(str::to_owned);
        let (low, high) = (key("foobar").min(key("a")), key("foobar").max(key("a")));
        let locks =
            format!(", pg_advisory_xact_lock(1935895653, {low}), pg_advisory_xact_lock(1935895653, {high})");
        assert!(begin(&queues).ends_with(&locks), "{}", begin(&queues));
    }
}
