//! Guards that a test can remove, to prove that the invariant checker finds the faults they
//! prevent.
//!
//! With the feature `broken-fences`, the variable `SCHED_BREAK` names the fences, separated by
//! commas, that a process lacks for its whole life. Only `scripts/break-it` turns the feature on.
//! Without it, all fences are active and this module has no cost. A build without debug assertions
//! rejects the feature; `scripts/check` proves both.

#[cfg(all(feature = "broken-fences", not(debug_assertions)))]
compile_error!("the feature `broken-fences` takes guards away for tests; a release must not have it");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Every transaction of a leader proves its term and locks the row that a take-over needs.
    LeaderTerm,
    /// The tick locks the jobs it has read.
    CursorLock,
    /// The tick moves a cursor only if it still has the value that was read.
    CursorCas,
    /// Claims of a queue take turns. Not needed for safety: without it, a test makes claims overlap.
    ClaimTurn,
    /// A claim locks the selected dispatches.
    ClaimLock,
    /// A claim checks the status again when it writes.
    ClaimStatus,
    /// Claims from a queue with a limit run one after the other.
    LimitLock,
    /// The writes at the end of an attempt carry the token of its claim.
    ClaimToken,
    /// A worker that lost its lease kills its attempts.
    WorkerLease,
    /// The holder of a lease that it cannot renew stops trusting it before another process may take
    /// over.
    TrustWindow,
    /// A program that exceeds its timeout is stopped.
    JobTimeout,
    /// A program that ignores the stop signal is killed.
    JobKill,
}

#[cfg(any(test, feature = "broken-fences"))]
impl Fence {
    const ALL: [Self; 12] = [
        Self::LeaderTerm,
        Self::CursorLock,
        Self::CursorCas,
        Self::ClaimTurn,
        Self::ClaimLock,
        Self::ClaimStatus,
        Self::LimitLock,
        Self::ClaimToken,
        Self::WorkerLease,
        Self::TrustWindow,
        Self::JobTimeout,
        Self::JobKill,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::LeaderTerm => "leader_term",
            Self::CursorLock => "cursor_lock",
            Self::CursorCas => "cursor_cas",
            Self::ClaimTurn => "claim_turn",
            Self::ClaimLock => "claim_lock",
            Self::ClaimStatus => "claim_status",
            Self::LimitLock => "limit_lock",
            Self::ClaimToken => "claim_token",
            Self::WorkerLease => "worker_lease",
            Self::TrustWindow => "trust_window",
            Self::JobTimeout => "job_timeout",
            Self::JobKill => "job_kill",
        }
    }

    /// File, text, and replacement without the fence.
    const fn in_statements(self) -> &'static [(&'static str, &'static str, &'static str)] {
        const PICKED: &str = "d.ctid = ANY (ARRAY(SELECT p.at FROM picked p)) AND d.ctid = picked.at AND d.id = picked.id AND d.status = 'PENDING'";
        match self {
            Self::LeaderTerm => &[
                (
                    "tick_fence.sql",
                    " AND is_leader AND term = $2 FOR KEY SHARE",
                    " AND $2::bigint IS NOT NULL",
                ),
                (
                    "move_planned.sql",
                    " AND i.is_leader AND i.term = $2\n    FOR KEY SHARE OF i",
                    " AND $2::bigint IS NOT NULL",
                ),
            ],
            Self::CursorLock => &[("tick_lock_due.sql", "FOR NO KEY UPDATE SKIP LOCKED", "")],
            Self::CursorCas => &[
                ("tick_move_cursors.sql", " AND j.next_run_at = u.from_run_at", ""),
                (
                    "move_planned.sql",
                    "      AND j.next_run_at = w.fire\n      AND j.version = w.version\n      AND j.last_fire_at IS NOT DISTINCT FROM w.follows\n      AND j.settled_until < w.fire\n",
                    "",
                ),
            ],
            Self::ClaimLock => &[
                ("claim.sql", "FOR UPDATE SKIP LOCKED", ""),
                ("claim_limited.sql", "FOR UPDATE SKIP LOCKED", ""),
                ("claim_lone.sql", "FOR UPDATE OF w SKIP LOCKED", ""),
            ],
            // Including the row version (`ctid`) from the lock, which also rejects a row that
            // changed since.
            Self::ClaimStatus => &[("claim_end.sql", PICKED, "d.id = picked.id")],
            Self::LimitLock => &[("claims_limited_lock.sql", "\nFOR UPDATE OF u", "")],
            Self::ClaimToken => {
                &[("attempts_end.sql", " AND d.claim_token = i.claim_token AND CASE", " AND CASE")]
            }
            Self::ClaimTurn | Self::WorkerLease | Self::TrustWindow | Self::JobTimeout | Self::JobKill => &[],
        }
    }
}

/// Whether a fence is active: always, except in a build for `scripts/break-it`.
#[cfg(not(feature = "broken-fences"))]
#[must_use]
pub const fn is_active(_fence: Fence) -> bool {
    true
}

#[cfg(not(feature = "broken-fences"))]
pub const fn statement(_files: &[&str], text: &'static str) -> &'static str {
    text
}

#[cfg(feature = "broken-fences")]
pub use self::broken::{is_active, statement};

#[cfg(feature = "broken-fences")]
mod broken {
    use std::collections::HashMap;
    use std::sync::{Mutex, OnceLock, PoisonError};

    use super::Fence;

    fn broken() -> &'static [Fence] {
        static BROKEN: OnceLock<Vec<Fence>> = OnceLock::new();
        BROKEN.get_or_init(|| {
            #[expect(clippy::disallowed_methods, reason = "no setting of the product: no release reads it")]
            let named = std::env::var("SCHED_BREAK").unwrap_or_default();
            named.split(',').filter(|name| !name.is_empty()).map(by_name).collect()
        })
    }

    /// A misspelt name must not count as a removed fence that makes no difference.
    fn by_name(name: &str) -> Fence {
        Fence::ALL
            .into_iter()
            .find(|fence| fence.name() == name)
            .unwrap_or_else(|| panic!("SCHED_BREAK names no fence: {name}"))
    }

    /// Whether a fence is active: unless `SCHED_BREAK` names it.
    #[must_use]
    pub fn is_active(fence: Fence) -> bool {
        !broken().contains(&fence)
    }

    pub fn statement(files: &[&str], text: &'static str) -> &'static str {
        static WITHOUT: OnceLock<Mutex<HashMap<&'static str, &'static str>>> = OnceLock::new();
        let mut text = text;
        for (in_file, fence, without) in broken().iter().flat_map(|fence| fence.in_statements()) {
            if files.iter().any(|file| file.rsplit('/').next() == Some(*in_file)) {
                assert!(text.contains(*fence), "{in_file} has no {fence:?}");
                let mut known =
                    WITHOUT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
                // Leaked once, because the text of a statement is static.
                text = known.entry(text).or_insert_with(|| text.replace(fence, without).leak());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::Fence;

    fn statements() -> Vec<PathBuf> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/src")];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "sql") {
                    files.push(path);
                }
            }
        }
        assert!(!files.is_empty());
        files
    }

    /// A changed statement must still contain the text that `scripts/break-it` replaces.
    #[test]
    fn every_fence_is_found_in_its_statement() {
        for (file, fence, without) in Fence::ALL.iter().flat_map(|fence| fence.in_statements()) {
            let path = statements().into_iter().find(|path| path.ends_with(file)).unwrap();
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(*fence), "{file} has no {fence:?}");
            let parameters = |text: &str| text.matches('$').count();
            assert_eq!(parameters(fence), parameters(without), "{file}: parameters must stay");
        }
    }

    /// All heads of claims, and their end, have their guards, and a test removes them together.
    #[test]
    fn every_claim_statement_has_fences() {
        for (fence, part) in [
            (Fence::ClaimLock, "\npicked AS MATERIALIZED ("),
            (Fence::ClaimStatus, "claim_token = nextval('claim_token_seq')"),
        ] {
            let claiming = statements().into_iter().filter(|path| {
                let folder = path.parent().unwrap();
                folder.ends_with("claims") && std::fs::read_to_string(path).unwrap().contains(part)
            });
            let claiming: BTreeSet<String> =
                claiming.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
            let fenced: BTreeSet<String> =
                fence.in_statements().iter().map(|(file, _, _)| (*file).to_owned()).collect();
            assert_eq!(fenced, claiming, "{fence:?}");
        }
    }

    #[test]
    fn names_of_fences_are_distinct() {
        let names: BTreeSet<&str> = Fence::ALL.into_iter().map(Fence::name).collect();
        assert_eq!(names.len(), Fence::ALL.len());
    }

    #[cfg(not(feature = "broken-fences"))]
    #[test]
    fn fences_are_active_in_the_product() {
        assert!(Fence::ALL.into_iter().all(super::is_active));
        assert_eq!(
            super::statement(&["claim_end.sql"], " AND d.status = 'PENDING'"),
            " AND d.status = 'PENDING'"
        );
    }
}
