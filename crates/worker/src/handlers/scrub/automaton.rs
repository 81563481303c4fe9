//! Finds many patterns in a text at once (Aho and Corasick): each byte is looked at once, however many patterns there are and however
//! they begin alike, so looking takes time in proportion to the text alone.
//!
//! A state is a beginning of some patterns: the longest that the text read so far ends with. That tells which pattern ends here, and how much
//! of one has begun. It is a trie of 24 bytes for each byte of the patterns that they do not share. Its bytes are wiped with it. Pure.

use secrecy::{ExposeSecret as _, SecretSlice};

/// No state, or no pattern.
const NONE: u32 = u32::MAX;
/// The beginning of everything, which is empty.
pub(super) const ROOT: u32 = 0;

/// See the module.
pub(super) struct Automaton {
    states: Vec<State>,
    /// The last byte of each state.
    bytes: SecretSlice<u8>,
    /// The states of one byte, as most bytes of a text are looked up there.
    first: Box<[u32; 256]>,
    /// Length and name of each pattern.
    patterns: Vec<(usize, u32)>,
}

#[derive(Clone, Copy)]
struct State {
    /// The first of the states that are one byte longer.
    child: u32,
    /// The next with the same beginning.
    sibling: u32,
    /// The longest other state that this one ends with.
    shorter: u32,
    /// Bytes.
    length: u32,
    /// The longest pattern that this one ends with.
    ends: u32,
    /// Some pattern that begins with it.
    begins: u32,
}

/// A pattern in the text, or the part of it that has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Bytes.
    pub(super) length: usize,
    /// The name it was given.
    pub(super) name: u32,
}

impl Default for Automaton {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Automaton {
    /// For these patterns, each with a name; of two that are the same the first counts.
    pub(super) fn new(patterns: &[(&[u8], u32)]) -> Self {
        let most = 1 + patterns.iter().map(|(pattern, _)| pattern.len()).sum::<usize>();
        let root = State { child: NONE, sibling: NONE, shorter: ROOT, length: 0, ends: NONE, begins: NONE };
        // Whole at once: what grows leaves copies behind.
        let (mut states, mut bytes) = (Vec::with_capacity(most), Vec::with_capacity(most));
        states.push(root);
        bytes.push(0);
        let mut built =
            Self { states, bytes: Vec::new().into(), first: Box::new([NONE; 256]), patterns: Vec::new() };
        for (number, (pattern, name)) in (0_u32..).zip(patterns) {
            built.patterns.push((pattern.len(), *name));
            built.insert(pattern, number, &mut bytes);
        }
        built.bytes = bytes.into();
        built.link();
        built
    }

    fn insert(&mut self, pattern: &[u8], number: u32, bytes: &mut Vec<u8>) {
        let mut at = ROOT;
        for (length, &byte) in (1_u32..).zip(pattern) {
            let known = self.child_in(at, byte, bytes);
            if known != NONE {
                at = known;
                continue;
            }
            let Ok(new) = u32::try_from(self.states.len()) else { return };
            let sibling = self.state(at).child;
            self.states.push(State {
                child: NONE,
                sibling,
                shorter: ROOT,
                length,
                ends: NONE,
                begins: number,
            });
            bytes.push(byte);
            if let Some(parent) = self.states.get_mut(at as usize) {
                parent.child = new;
            }
            if at == ROOT
                && let Some(first) = self.first.get_mut(usize::from(byte))
            {
                *first = new;
            }
            at = new;
        }
        if let Some(last) = self.states.get_mut(at as usize)
            && last.ends == NONE
            && at != ROOT
        {
            last.ends = number;
        }
    }

    /// Finds for every state what it ends with, shorter states before longer ones.
    fn link(&mut self) {
        let mut waiting = vec![ROOT];
        let mut next = 0;
        while let Some(&parent) = waiting.get(next) {
            next += 1;
            let mut child = self.state(parent).child;
            while child != NONE {
                let byte = self.byte(child);
                let shorter = if parent == ROOT { ROOT } else { self.step(self.state(parent).shorter, byte) };
                let ends = self.state(shorter).ends;
                if let Some(state) = self.states.get_mut(child as usize) {
                    state.shorter = shorter;
                    if state.ends == NONE {
                        state.ends = ends;
                    }
                }
                waiting.push(child);
                child = self.state(child).sibling;
            }
        }
    }

    /// The state after one more byte.
    pub(super) fn step(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            let child = self.child_in(state, byte, self.bytes.expose_secret());
            if child != NONE {
                return child;
            }
            if state == ROOT {
                return ROOT;
            }
            state = self.state(state).shorter;
        }
    }

    /// The longest pattern that ends here.
    pub(super) fn ended(&self, state: u32) -> Option<Found> {
        let ends = self.state(state).ends;
        self.patterns.get(ends as usize).map(|&(length, name)| Found { length, name })
    }

    /// The most that may be the beginning of a pattern whose rest is still to come.
    pub(super) fn begun(&self, mut state: u32) -> Option<Found> {
        while state != ROOT && self.state(state).child == NONE {
            state = self.state(state).shorter;
        }
        let State { length, begins, .. } = self.state(state);
        let (_, name) = *self.patterns.get(begins as usize)?;
        Some(Found { length: length as usize, name })
    }

    fn child_in(&self, state: u32, byte: u8, bytes: &[u8]) -> u32 {
        if state == ROOT {
            return self.first.get(usize::from(byte)).copied().unwrap_or(NONE);
        }
        let mut child = self.state(state).child;
        while child != NONE && bytes.get(child as usize) != Some(&byte) {
            child = self.state(child).sibling;
        }
        child
    }

    fn byte(&self, state: u32) -> u8 {
        self.bytes.expose_secret().get(state as usize).copied().unwrap_or_default()
    }

    /// Every number that is handed out has a state; any other would be like the root of nothing.
    fn state(&self, number: u32) -> State {
        const NOTHING: State =
            State { child: NONE, sibling: NONE, shorter: ROOT, length: 0, ends: NONE, begins: NONE };
        self.states.get(number as usize).copied().unwrap_or(NOTHING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// End, length and name of every longest pattern in a text, and what has begun at its end.
    fn all(patterns: &[&str], text: &str) -> (Vec<(usize, usize, u32)>, Option<usize>) {
        let numbered: Vec<(&[u8], u32)> = patterns.iter().map(|text| text.as_bytes()).zip(0..).collect();
        let automaton = Automaton::new(&numbered);
        let mut state = ROOT;
        let mut found = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            state = automaton.step(state, byte);
            found.extend(automaton.ended(state).map(|one| (at + 1, one.length, one.name)));
        }
        (found, automaton.begun(state).map(|one| one.length))
    }

    #[test]
    fn every_end_of_a_pattern_is_found_with_the_longest_that_ends_there() {
        assert_eq!(all(&["he", "she", "his", "hers"], "ushers").0, [(4, 3, 1), (6, 4, 3)]);
        assert_eq!(all(&["aa", "aaaa", "a"], "aaaab").0, [(1, 1, 2), (2, 2, 0), (3, 2, 0), (4, 4, 1)]);
        assert_eq!(all(&["x", "x"], "x").0, [(1, 1, 0)], "the first counts");
        assert_eq!(all(&[], "x"), (vec![], None));
        assert_eq!(all(&["", "b"], "ab").0, [(2, 1, 1)]);
    }

    #[test]
    fn what_has_begun_is_told_unless_it_is_whole() {
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
    fn it_finds_what_looking_everywhere_finds() {
        // Words over two letters, so that they overlap in every way.
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
            let (found, begun) = all(&patterns, &text);
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
            let expected = longest.filter(|begun| text.as_bytes().ends_with(begun)).map(<[u8]>::len).max();
            assert_eq!(begun.unwrap_or_default(), expected.unwrap_or_default(), "{patterns:?} in {text}");
        }
    }
}
