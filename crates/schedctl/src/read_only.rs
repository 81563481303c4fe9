//! Commands that only read, which `--watch` may repeat.

/// Read-only commands without a group.
const READS: [&str; 4] = ["status", "health", "metrics", "whoami"];
/// Read-only commands of groups.
const READING_VERBS: [&str; 6] = ["list", "get", "status", "explain", "versions", "usage"];

/// Whether a command is read-only at the API. Migrations use the database.
pub(crate) fn only_reads(words: &[&str]) -> bool {
    match words {
        [] | ["migrate", ..] => false,
        [alone] => READS.contains(alone),
        [.., verb] => READING_VERBS.contains(verb),
    }
}
