//! Removes the values of secrets from everything an attempt returns: output, results, messages.
//!
//! `[secret NAME]` replaces a value, verbatim and in the forms that programs commonly write
//! ([`forms`]). Values shorter than [`SHORTEST`] bytes are not replaced, because they would match
//! everywhere. This guards against accidents; a program can always disguise a value.
//!
//! One pass searches for all forms ([`automaton`]), so the time depends on the length of the text
//! and not on the secrets. The loader of the secrets bounds their number. Handlers and the
//! automaton have copies of the values that are not wiped.

mod automaton;
mod forms;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aho_corasick::automaton::StateID;
use secrecy::{ExposeSecret as _, SecretSlice};
use serde_json::Value;

use super::{CapturedOutput, Report, Secrets};
use automaton::Automaton;

/// Values with fewer bytes are not replaced.
pub const SHORTEST: usize = 4;
/// The marker can be longer than the value.
const GROWTH: usize = 2;
/// Always allowed, regardless of [`GROWTH`].
const LEAST_LIMIT: usize = 4096;

#[derive(Default)]
pub struct Scrubber {
    markers: Vec<String>,
    /// With the number of the secret.
    patterns: Vec<(SecretSlice<u8>, u32)>,
    automaton: Automaton,
}

/// Prints markers only, no values.
impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scrubber").field(&self.markers).finish()
    }
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    of: u32,
}

impl Scrubber {
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        let (mut markers, mut patterns) = (Vec::new(), Vec::new());
        for (number, (name, value)) in (0_u32..).zip(secrets.iter()) {
            let texts = forms::of(value.expose_secret()).into_iter();
            patterns.extend(texts.map(|text| (SecretSlice::from(text), number)));
            markers.push(format!("[secret {name}]"));
        }
        let exposed: Vec<(&[u8], u32)> =
            patterns.iter().map(|(text, number)| (text.expose_secret(), *number)).collect();
        let automaton = Automaton::new(&exposed);
        Self { markers, patterns, automaton }
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.patterns.is_empty()
    }

    #[must_use]
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replace(text, &self.spans(text))
    }

    /// The cut end may be the beginning of a secret.
    fn scrub_head<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut scan = Scan::new(self);
        scan.feed(self, text.as_bytes());
        if let Some(prefix) = self.automaton.unfinished(scan.state).filter(|prefix| prefix.length >= SHORTEST)
        {
            add(
                &mut scan.spans,
                Span { start: text.len() - prefix.length, end: text.len(), of: prefix.name },
            );
        }
        self.replace(text, &scan.spans)
    }

    /// The cut beginning may be the end of a secret.
    pub(super) fn scrub_tail<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let ended = self.patterns.iter().filter_map(|(pattern, of)| {
            // `spans` finds the whole pattern; this skips its first byte.
            let end = overlap(pattern.expose_secret().get(1..)?, text.as_bytes());
            (end >= SHORTEST).then_some(Span { start: 0, end, of: *of })
        });
        let longest = ended.min_by_key(|span| std::cmp::Reverse(span.end));
        let mut spans: Vec<Span> = longest.into_iter().collect();
        for span in self.spans(text) {
            // Spans are sorted by their ends, and the first covers every span that ends within it.
            if spans.first().is_none_or(|first| span.end > first.end) {
                add(&mut spans, span);
            }
        }
        self.replace(text, &spans)
    }

    /// A number that shows a secret becomes a string.
    #[must_use]
    pub fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.scrub(&text).into_owned()),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.json(item)).collect()),
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(key, item)| (self.scrub(&key).into_owned(), self.json(item)))
                    .collect(),
            ),
            Value::Number(number) => match self.scrub(&number.to_string()) {
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(text) => Value::String(text),
            },
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// Scrubs every field that the handler's program may have written.
    #[must_use]
    pub fn report(&self, report: Report) -> Report {
        if self.is_idle() {
            return report;
        }
        Report {
            error_message: report.error_message.map(|text| self.scrub(&text).into_owned()),
            traceback: report.traceback.map(|text| self.scrub(&text).into_owned()),
            result: report.result.map(|value| self.json(value)),
            metrics: report.metrics.map(|value| self.json(value)),
            stdout: self.captured(report.stdout),
            stderr: self.captured(report.stderr),
            log: self.captured(report.log),
            notes: report.notes.iter().map(|note| self.scrub(note).into_owned()).collect(),
            ..report
        }
    }

    fn captured(&self, captured: CapturedOutput) -> CapturedOutput {
        let CapturedOutput { head, tail, total_bytes, dropped_bytes } = captured;
        let (head, tail) = if dropped_bytes == 0 {
            (self.scrub(&head).into_owned(), self.scrub(&tail).into_owned())
        } else {
            (self.scrub_head(&head).into_owned(), self.scrub_tail(&tail).into_owned())
        };
        CapturedOutput { head, tail, total_bytes, dropped_bytes }
    }

    #[must_use]
    pub fn stream(self: &Arc<Self>) -> ScrubbedStream {
        ScrubbedStream { scrubber: self.clone(), held: String::new(), covered: 0, scan: Scan::new(self) }
    }

    /// Sorted and without overlaps.
    fn spans(&self, text: &str) -> Vec<Span> {
        let mut scan = Scan::new(self);
        scan.feed(self, text.as_bytes());
        scan.spans
    }

    fn marker(&self, span: &Span) -> &str {
        self.markers.get(span.of as usize).map_or("[secret]", String::as_str)
    }

    fn replace<'a>(&self, text: &'a str, spans: &[Span]) -> Cow<'a, str> {
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::new();
        let mut at = 0;
        for span in spans {
            shown.push_str(text.get(at..span.start).unwrap_or_default());
            shown.push_str(self.marker(span));
            at = span.end;
        }
        shown.push_str(text.get(at..).unwrap_or_default());
        shown.truncate(shown.floor_char_boundary((text.len() * GROWTH).max(LEAST_LIMIT)));
        Cow::Owned(shown)
    }
}

#[derive(Debug)]
struct Scan {
    to: usize,
    state: StateID,
    /// Sorted and without overlaps.
    spans: Vec<Span>,
}

impl Scan {
    fn new(scrubber: &Scrubber) -> Self {
        Self { to: 0, state: scrubber.automaton.start(), spans: Vec::new() }
    }

    fn feed(&mut self, scrubber: &Scrubber, text: &[u8]) {
        for &byte in text {
            self.to += 1;
            self.state = scrubber.automaton.step(self.state, byte);
            if let Some(found) = scrubber.automaton.finished(self.state) {
                add(&mut self.spans, Span { start: self.to - found.length, end: self.to, of: found.name });
            }
        }
    }
}

/// The span ends after all others. Overlapping spans become one with the name of the first.
fn add(spans: &mut Vec<Span>, new: Span) {
    while spans.pop_if(|last| last.start >= new.start).is_some() {}
    match spans.last_mut() {
        Some(last) if new.start < last.end || (new.start == last.end && new.of == last.of) => {
            last.end = new.end
        }
        _ => spans.push(new),
    }
}

/// The longest suffix of `back` that is a prefix of `front` (Knuth, Morris and Pratt).
fn overlap(back: &[u8], front: &[u8]) -> usize {
    let front = front.get(..back.len()).unwrap_or(front);
    let longer = |mut length: usize, byte: u8, borders: &[usize]| loop {
        if front.get(length) == Some(&byte) {
            return length + 1;
        }
        match length.checked_sub(1) {
            None => return 0,
            Some(last) => length = borders.get(last).copied().unwrap_or(0),
        }
    };
    let mut borders = Vec::with_capacity(front.len());
    for (at, byte) in front.iter().enumerate() {
        let border = match at.checked_sub(1).and_then(|last| borders.get(last)) {
            None => 0,
            Some(&border) => longer(border, *byte, &borders),
        };
        borders.push(border);
    }
    back.iter().fold(0, |length, byte| longer(length, *byte, &borders))
}

/// Holds back bytes that may be the beginning of a secret, at most one byte less than the longest
/// form.
#[derive(Debug)]
pub struct ScrubbedStream {
    scrubber: Arc<Scrubber>,
    held: String,
    /// Bytes of `held` that a marker has replaced.
    covered: usize,
    /// Covers all of `held`.
    scan: Scan,
}

impl ScrubbedStream {
    pub fn feed(&mut self, text: &str) -> String {
        if self.scrubber.is_idle() {
            return text.to_owned();
        }
        self.held.push_str(text);
        self.scan.feed(&self.scrubber, text.as_bytes());
        let prefix = self.scrubber.automaton.unfinished(self.scan.state);
        let until = self.held.len() - prefix.map_or(0, |prefix| prefix.length);
        self.show(until)
    }

    pub fn finish(mut self) -> String {
        self.show(self.held.len())
    }

    /// If a secret reaches beyond `until`, the marker is returned and the stream remembers the
    /// rest.
    fn show(&mut self, until: usize) -> String {
        let mut shown = String::new();
        let mut at = self.covered;
        for span in self.scan.spans.iter().take_while(|span| span.start < until) {
            if span.end <= at {
                continue;
            }
            if span.start >= at {
                shown.push_str(self.held.get(at..span.start).unwrap_or_default());
                shown.push_str(self.scrubber.marker(span));
            }
            at = span.end;
        }
        shown.push_str(self.held.get(at..until).unwrap_or_default());
        self.covered = at.saturating_sub(until);
        drop(self.held.drain(..until));
        self.scan.to -= until;
        self.scan.spans.retain_mut(|span| {
            let is_to_come = span.start >= until;
            if is_to_come {
                (span.start, span.end) = (span.start - until, span.end - until);
            }
            is_to_come
        });
        shown
    }
}

#[cfg(test)]
mod tests;
