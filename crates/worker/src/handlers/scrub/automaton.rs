//! Finds all forms of all secrets in one pass, with the Aho-Corasick automaton of the crate
//! `aho-corasick`.
//!
//! The searches of the crate report complete matches only. A scrubbed stream must also know how
//! much of a pattern has begun at its end. So this module stores for each state the longest
//! unfinished pattern. Each byte of a text is read once.
//!
//! The crate does not wipe its copy of the patterns from memory.

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::noncontiguous::{Builder, NFA};

pub(super) struct Automaton {
    /// `None` without patterns.
    nfa: Option<NFA>,
    start: StateID,
    patterns: Vec<Found>,
    /// By state: the longest proper prefix of a pattern that the text ends with.
    unfinished: Vec<Option<Found>>,
}

/// A pattern in the text, or a prefix of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// In bytes.
    pub(super) length: usize,
    pub(super) name: u32,
}

impl Default for Automaton {
    fn default() -> Self {
        Self { nfa: None, start: StateID::ZERO, patterns: Vec::new(), unfinished: Vec::new() }
    }
}

impl Automaton {
    /// The first of two equal patterns wins. Empty patterns are ignored.
    pub(super) fn new(patterns: &[(&[u8], u32)]) -> Self {
        let patterns: Vec<&(&[u8], u32)> =
            patterns.iter().filter(|(pattern, _)| !pattern.is_empty()).collect();
        if patterns.is_empty() {
            return Self::default();
        }
        let (nfa, start) = build(&patterns);
        let found = |(pattern, name): &&(&[u8], u32)| Found { length: pattern.len(), name: *name };
        let found = patterns.iter().map(found).collect();
        let mut automaton = Self { nfa: Some(nfa), start, patterns: found, unfinished: Vec::new() };
        automaton.find_unfinished(patterns);
        automaton
    }

    /// Every state of the automaton is a prefix of a pattern.
    fn find_unfinished(&mut self, mut patterns: Vec<&(&[u8], u32)>) {
        for (pattern, name) in &patterns {
            let mut state = self.start;
            for (length, byte) in (1..pattern.len()).zip(*pattern) {
                state = self.step(state, *byte);
                self.set_unfinished(state, Some(Found { length, name: *name }));
            }
        }
        // A pattern without a continuation ends like the state of its longest proper suffix.
        // Shorter patterns come first, because that suffix may be such a pattern too.
        patterns.sort_by_key(|(pattern, _)| pattern.len());
        for (pattern, _) in patterns {
            let (whole, suffix) = (self.after(pattern), self.after(pattern.get(1..).unwrap_or_default()));
            self.set_unfinished(whole, self.unfinished(suffix));
        }
    }

    /// Keeps an earlier value.
    fn set_unfinished(&mut self, state: StateID, found: Option<Found>) {
        let index = state.as_usize();
        if self.unfinished.len() <= index {
            self.unfinished.resize(index + 1, None);
        }
        if let Some(slot) = self.unfinished.get_mut(index) {
            *slot = slot.or(found);
        }
    }

    fn after(&self, text: &[u8]) -> StateID {
        text.iter().fold(self.start, |state, byte| self.step(state, *byte))
    }

    pub(super) fn start(&self) -> StateID {
        self.start
    }

    pub(super) fn step(&self, state: StateID, byte: u8) -> StateID {
        self.nfa.as_ref().map_or(state, |nfa| nfa.next_state(Anchored::No, state, byte))
    }

    pub(super) fn finished(&self, state: StateID) -> Option<Found> {
        let nfa = self.nfa.as_ref().filter(|nfa| nfa.is_match(state))?;
        // The patterns of a state are sorted by length, longest first.
        self.patterns.get(nfa.match_pattern(state, 0).as_usize()).copied()
    }

    pub(super) fn unfinished(&self, state: StateID) -> Option<Found> {
        self.unfinished.get(state.as_usize()).copied().flatten()
    }
}

#[expect(clippy::expect_used, reason = "a scrubber that misses secrets must not run")]
fn build(patterns: &[&(&[u8], u32)]) -> (NFA, StateID) {
    // Dense for the start state only, which most bytes need. Nothing here uses the prefilter.
    let mut builder = Builder::new();
    builder.dense_depth(1).prefilter(false);
    let nfa = builder.build(patterns.iter().map(|(pattern, _)| pattern));
    let nfa = nfa.expect("the patterns are far shorter than 2 GiB, the limit of the crate");
    let start = nfa.start_state(Anchored::No).expect("an NFA supports searches without an anchor");
    (nfa, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// End, length and name; then the length of the unfinished pattern.
    fn all(patterns: &[&str], text: &str) -> (Vec<(usize, usize, u32)>, Option<usize>) {
        let numbered: Vec<(&[u8], u32)> = patterns.iter().map(|text| text.as_bytes()).zip(0..).collect();
        let automaton = Automaton::new(&numbered);
        let mut state = automaton.start();
        let mut found = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            state = automaton.step(state, byte);
            found.extend(automaton.finished(state).map(|one| (at + 1, one.length, one.name)));
        }
        (found, automaton.unfinished(state).map(|one| one.length))
    }

    #[test]
    fn longest_pattern_is_found_at_every_end() {
        assert_eq!(all(&["he", "she", "his", "hers"], "ushers").0, [(4, 3, 1), (6, 4, 3)]);
        assert_eq!(all(&["aa", "aaaa", "a"], "aaaab").0, [(1, 1, 2), (2, 2, 0), (3, 2, 0), (4, 4, 1)]);
        assert_eq!(all(&["x", "x"], "x").0, [(1, 1, 0)], "the first counts");
        assert_eq!(all(&[], "x"), (vec![], None));
        assert_eq!(all(&["", "b"], "ab").0, [(2, 1, 1)]);
    }

    #[test]
    fn unfinished_pattern_is_found_at_the_end() {
        let patterns = ["abcdXY", "abcdXYZZ", "XYefgh", "dX"];
        for (text, expected) in [
            ("..abc", 3),
            ("..abcdX", 5),
            ("..abcdXY", 6),
            ("..abcdXYZZ", 0),
            ("abcdXYe", 3),
            ("dX", 1),
            ("", 0),
        ] {
            assert_eq!(all(&patterns, text).1.unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn automaton_agrees_with_a_naive_search() {
        // Two letters, so that the words overlap in every combination.
        let word = |number: u32, length: u32| -> String {
            (0..length).map(|bit| if number >> bit & 1 == 0 { 'a' } else { 'b' }).collect()
        };
        let mut seed = 1_u32;
        let mut random = move |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        for _ in 0..500 {
            let patterns: Vec<String> = (0..random(6)).map(|_| word(random(64), 1 + random(6))).collect();
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let text = word(random(1 << 20), 20);
            let (found, unfinished) = all(&patterns, &text);
            let expected: Vec<(usize, usize)> = (1..=text.len())
                .filter_map(|end| {
                    let ending = patterns
                        .iter()
                        .filter(|pattern| text.as_bytes()[..end].ends_with(pattern.as_bytes()));
                    ending.map(|pattern| pattern.len()).max().map(|length| (end, length))
                })
                .collect();
            let found: Vec<(usize, usize)> = found.iter().map(|(end, length, _)| (*end, *length)).collect();
            assert_eq!(found, expected, "{patterns:?} in {text}");
            let longest = patterns
                .iter()
                .flat_map(|pattern| (1..pattern.len()).map(|length| &pattern.as_bytes()[..length]));
            let expected = longest.filter(|prefix| text.as_bytes().ends_with(prefix)).map(<[u8]>::len).max();
            assert_eq!(
                unfinished.unwrap_or_default(),
                expected.unwrap_or_default(),
                "{patterns:?} in {text}"
            );
        }
    }
}
