//! Which claims are finished: of each, how many of its dispatches are not stored yet.
//!
//! In memory only; what a process that dies leaves unreleased is forgotten by the leader.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Message;

/// How many dispatches of each claim are not stored yet, and which claims could not be released with the last of them.
#[derive(Debug, Default)]
pub(super) struct ClaimBook(Mutex<Claims>);

#[derive(Debug, Default)]
struct Claims {
    left: HashMap<i64, usize>,
    /// Finished by two transactions at once, neither of which could know that it was the last.
    unreleased: Vec<i64>,
}

impl ClaimBook {
    pub(super) fn expect(&self, claim: i64, dispatches: usize) {
        self.locked(|claims| claims.left.insert(claim, dispatches));
    }

    /// The claims that storing these ends finishes, and those that are finished and were not released.
    pub(super) fn finished_by(&self, batch: &HashMap<i64, usize>) -> Vec<i64> {
        self.locked(|claims| {
            let covered =
                |(claim, ends): (&i64, &usize)| (claims.left.get(claim) == Some(ends)).then_some(*claim);
            let mut finished: Vec<i64> = batch.iter().filter_map(covered).collect();
            finished.append(&mut claims.unreleased);
            finished
        })
    }

    /// Notes that these ends are stored, and which claims were released with them. Returns whether some are left to be released.
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

    fn locked<T>(&self, look: impl FnOnce(&mut Claims) -> T) -> T {
        // A panic while the lock was held cannot have left an entry half-changed.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How many ends of each claim a batch holds.
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
    fn a_claim_is_released_with_the_last_of_its_dispatches() {
        let book = ClaimBook::default();
        book.expect(1, 3);
        book.expect(2, 1);
        let first = HashMap::from([(1, 2), (2, 1)]);
        assert_eq!(book.finished_by(&first), [2]);
        assert!(!book.stored(&first, &[2]));
        let second = HashMap::from([(1, 1), (7, 1)]);
        assert_eq!(book.finished_by(&second), [1]);
        assert!(!book.stored(&second, &[1]));
        assert!(book.finished_by(&HashMap::new()).is_empty());
    }

    #[test]
    fn a_claim_that_two_writers_finish_at_once_is_released_afterwards() {
        let book = ClaimBook::default();
        book.expect(1, 5);
        let (one, other) = (HashMap::from([(1, 2)]), HashMap::from([(1, 3)]));
        assert!(book.finished_by(&one).is_empty());
        assert!(book.finished_by(&other).is_empty(), "the first is not stored yet");
        assert!(!book.stored(&one, &[]));
        assert!(book.stored(&other, &[]), "nobody has released it");
        assert_eq!(book.finished_by(&HashMap::new()), [1]);
        assert!(book.finished_by(&HashMap::new()).is_empty());
    }
}
