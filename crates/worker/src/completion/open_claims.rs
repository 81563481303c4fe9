//! Open claims: the number of runs of each claim without a stored result.
//!
//! In memory only. If the process dies, the leader deletes its finished claims.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Message;

/// Runs per claim without a stored result, and finished claims that are not released.
#[derive(Debug, Default)]
pub(super) struct OpenClaims(Mutex<Claims>);

#[derive(Debug, Default)]
struct Claims {
    left: HashMap<i64, usize>,
    /// Two concurrent transactions finished the claim. Neither could detect that it was the last.
    unreleased: Vec<i64>,
}

impl OpenClaims {
    pub(super) fn expect(&self, claim: i64, runs: usize) {
        self.locked(|claims| claims.left.insert(claim, runs));
    }

    /// The claims that this batch finishes, and earlier finished claims that are not released.
    pub(super) fn finished_by(&self, batch: &HashMap<i64, usize>) -> Vec<i64> {
        self.locked(|claims| {
            let covered =
                |(claim, ends): (&i64, &usize)| (claims.left.get(claim) == Some(ends)).then_some(*claim);
            let mut finished: Vec<i64> = batch.iter().filter_map(covered).collect();
            finished.append(&mut claims.unreleased);
            finished
        })
    }

    /// Records a stored batch and the claims that were released with it. Returns whether finished
    /// claims are not released.
    pub(super) fn stored(&self, batch: &HashMap<i64, usize>, released: &[i64]) -> bool {
        self.locked(|claims| {
            for (claim, ends) in batch {
                let Some(left) = claims.left.get_mut(claim) else { continue };
                *left = left.saturating_sub(*ends);
                if *left == 0 {
                    claims.left.remove(claim);
                    if !released.contains(claim) {
                        claims.unreleased.push(*claim);
                    }
                }
            }
            !claims.unreleased.is_empty()
        })
    }

    fn locked<T>(&self, f: impl FnOnce(&mut Claims) -> T) -> T {
        // A panic leaves every entry consistent.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) fn by_claim(batch: &[Message]) -> HashMap<i64, usize> {
    let mut ends = HashMap::new();
    for claim in batch.iter().filter_map(|message| message.claim) {
        *ends.entry(claim).or_default() += 1;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_is_released_with_its_last_run() {
        let open = OpenClaims::default();
        open.expect(1, 3);
        open.expect(2, 1);
        let first = HashMap::from([(1, 2), (2, 1)]);
        assert_eq!(open.finished_by(&first), [2]);
        assert!(!open.stored(&first, &[2]));
        let second = HashMap::from([(1, 1), (7, 1)]);
        assert_eq!(open.finished_by(&second), [1]);
        assert!(!open.stored(&second, &[1]));
        assert!(open.finished_by(&HashMap::new()).is_empty());
    }

    #[test]
    fn claim_finished_by_two_writers_is_released_later() {
        let open = OpenClaims::default();
        open.expect(1, 5);
        let (one, other) = (HashMap::from([(1, 2)]), HashMap::from([(1, 3)]));
        assert!(open.finished_by(&one).is_empty());
        assert!(open.finished_by(&other).is_empty(), "the first is not stored yet");
        assert!(!open.stored(&one, &[]));
        assert!(open.stored(&other, &[]), "not released yet");
        assert_eq!(open.finished_by(&HashMap::new()), [1]);
        assert!(open.finished_by(&HashMap::new()).is_empty());
    }
}
