//! Repeatable randomness: the same seed gives the same numbers on every machine and with every
//! library release. Pure.

use std::time::Duration;

/// `SplitMix64`.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self { state: seed };
        dice.state = dice.next() ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        dice
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Both bounds included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// `count` is at least one.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let most = u64::try_from(count).unwrap_or(u64::MAX) - 1;
        usize::try_from(self.between(0, most)).unwrap_or(0)
    }

    /// A duration between two bounds, in milliseconds.
    pub(crate) fn span(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// One of several values, weighted.
    pub(crate) fn choose<T: Copy>(&mut self, weighted: &[(u64, T)], otherwise: T) -> T {
        let total: u64 = weighted.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.between(1, total.max(1));
        for (weight, choice) in weighted {
            if drawn <= *weight {
                return *choice;
            }
            drawn -= weight;
        }
        otherwise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_always_gives_the_same_numbers() {
        let mut dice = Dice::new(7, 1);
        let drawn: Vec<u64> = (0..4).map(|_| dice.between(0, 999)).collect();
        let mut again = Dice::new(7, 1);
        assert_eq!(drawn, (0..4).map(|_| again.between(0, 999)).collect::<Vec<_>>());
        let mut other = Dice::new(7, 2);
        assert_ne!(drawn, (0..4).map(|_| other.between(0, 999)).collect::<Vec<_>>());
    }
}
