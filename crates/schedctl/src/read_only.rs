//! Commands that only read, which `--watch` may repeat.

const READS: [&str; 4] = ["status", "health", "metrics", "whoami"];
const READING_VERBS: [&str; 6] = ["list", "get", "status", "explain", "versions", "usage"];

/// At the API; migrations use the database.
pub(crate) fn only_reads(words: &[&str]) -> bool {
    match words {
        [] | ["migrate", ..] => false,
        [alone] => READS.contains(alone),
        [.., verb] => READING_VERBS.contains(verb),
    }
}
