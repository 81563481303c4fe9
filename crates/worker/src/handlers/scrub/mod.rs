//! Takes the values of secrets out of whatever an attempt gives back: output, results, messages.
//!
//! A value is found as it is and in the forms that programs commonly give it (see [`forms`]), and `[secret NAME]` stands where
//! it stood. Values shorter than [`SHORTEST`] bytes are left alone, because they would be found everywhere. It guards against
//! accidents, such as a program that prints its environment; who means to get a value out can always disguise it.
//!
//! Pure. Texts are searched by substring and not by an automaton, so memory is a small multiple of the secrets' own length. The
//! forms are wiped when the scrubber is dropped.

mod forms;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use memchr::{memchr_iter, memmem};
use secrecy::{ExposeSecret as _, SecretSlice};
use serde_json::Value;

use super::{Captured, Report, Secrets};

/// Shortest text that is taken for a secret.
pub const SHORTEST: usize = 4;
/// How much longer than before a text may become: a short value that fills a text is replaced by something longer.
const GROWTH: usize = 2;
/// The same for short texts, in bytes.
const LEAST_LIMIT: usize = 4096;

/// Finds the secrets of one attempt.
#[derive(Default)]
pub struct Scrubber {
    patterns: Vec<Pattern>,
}

struct Pattern {
    text: SecretSlice<u8>,
    marker: Arc<str>,
}

/// Markers only.
impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut markers: Vec<&str> = self.patterns.iter().map(|pattern| &*pattern.marker).collect();
        markers.dedup();
        f.debug_tuple("Scrubber").field(&markers).finish()
    }
}

/// A stretch of a text that shows a secret.
struct Span<'a> {
    start: usize,
    end: usize,
    marker: &'a str,
}

impl Scrubber {
    /// One for these secrets.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        let mut patterns = Vec::new();
        for (name, value) in secrets.iter() {
            let marker: Arc<str> = format!("[secret {name}]").into();
            let texts = forms::of(value.expose_secret()).into_iter();
            patterns.extend(texts.map(|text| Pattern { text: text.into(), marker: marker.clone() }));
        }
        Self { patterns }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A whole text without secrets.
    #[must_use]
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replace(text, self.spans(text))
    }

    /// A text that was cut off at its end, where the beginning of a secret may stand.
    fn scrub_head<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut spans = self.spans(text);
        let begun = self.patterns.iter().filter_map(|pattern| {
            let start = begun_at(text.as_bytes(), pattern.text.expose_secret())?;
            Some(Span { start, end: text.len(), marker: &pattern.marker })
        });
        spans.extend(begun.filter(|span| span.end - span.start >= SHORTEST));
        self.replace(text, spans)
    }

    /// A text whose beginning was cut off, where the end of a secret may stand.
    pub(super) fn scrub_tail<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut spans = self.spans(text);
        spans.extend(self.patterns.iter().filter_map(|pattern| {
            let end = ended_at(text.as_bytes(), pattern.text.expose_secret())?;
            Some(Span { start: 0, end, marker: &pattern.marker })
        }));
        self.replace(text, spans)
    }

    /// Every text and key of a JSON value without secrets; a number that is one becomes text.
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

    /// Everything of a report that a handler's program may have written.
    #[must_use]
    pub fn report(&self, report: Report) -> Report {
        if self.is_idle() {
            return report;
        }
        Report {
            error_message: report.error_message.map(|text| self.scrub(&text).into_owned()),
            result: report.result.map(|value| self.json(value)),
            stdout: self.captured(report.stdout),
            stderr: self.captured(report.stderr),
            log: self.captured(report.log),
            notes: report.notes.iter().map(|note| self.scrub(note).into_owned()).collect(),
            ..report
        }
    }

    fn captured(&self, captured: Captured) -> Captured {
        let Captured { head, tail, total_bytes, dropped_bytes } = captured;
        let (head, tail) = if dropped_bytes == 0 {
            (self.scrub(&head).into_owned(), self.scrub(&tail).into_owned())
        } else {
            (self.scrub_head(&head).into_owned(), self.scrub_tail(&tail).into_owned())
        };
        Captured { head, tail, total_bytes, dropped_bytes }
    }

    /// For a text that comes in pieces.
    #[must_use]
    pub fn stream(self: &Arc<Self>) -> ScrubbedStream {
        ScrubbedStream { scrubber: self.clone(), held: String::new(), covered: 0 }
    }

    /// Where secrets stand in a text: in order, none overlapping another.
    fn spans(&self, text: &str) -> Vec<Span<'_>> {
        let mut spans = Vec::new();
        for pattern in &self.patterns {
            let needle = pattern.text.expose_secret();
            spans.extend(memmem::find_iter(text.as_bytes(), needle).map(|start| Span {
                start,
                end: start + needle.len(),
                marker: &pattern.marker,
            }));
        }
        merged(spans)
    }

    fn replace<'a>(&self, text: &'a str, spans: Vec<Span<'_>>) -> Cow<'a, str> {
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::new();
        let mut at = 0;
        for span in merged(spans) {
            shown.push_str(text.get(at..span.start).unwrap_or_default());
            shown.push_str(span.marker);
            at = span.end;
        }
        shown.push_str(text.get(at..).unwrap_or_default());
        shown.truncate(shown.floor_char_boundary((text.len() * GROWTH).max(LEAST_LIMIT)));
        Cow::Owned(shown)
    }

    /// From where on a text may be the beginning of a secret whose rest is still to come.
    fn pending(&self, text: &str) -> usize {
        let begun = self.patterns.iter().filter_map(|pattern| {
            let start = begun_at(text.as_bytes(), pattern.text.expose_secret())?;
            Some(start)
        });
        begun.min().unwrap_or(text.len())
    }
}

/// Sorted; those that overlap are one, under the name of the first.
fn merged(mut spans: Vec<Span<'_>>) -> Vec<Span<'_>> {
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut kept: Vec<Span<'_>> = Vec::with_capacity(spans.len());
    for span in spans {
        match kept.last_mut() {
            Some(last) if span.start < last.end || (span.start == last.end && span.marker == last.marker) => {
                last.end = last.end.max(span.end);
            }
            _ => kept.push(span),
        }
    }
    kept
}

/// Where the longest end of `text` begins that is a beginning of `pattern`, but not all of it.
fn begun_at(text: &[u8], pattern: &[u8]) -> Option<usize> {
    let first = *pattern.first()?;
    let from = text.len().saturating_sub(pattern.len().saturating_sub(1));
    let end = text.get(from..)?;
    memchr_iter(first, end)
        .find(|start| end.get(*start..).is_some_and(|rest| pattern.starts_with(rest)))
        .map(|start| from + start)
}

/// Where the longest beginning of `text` ends that is an end of `pattern`, but not all of it.
fn ended_at(text: &[u8], pattern: &[u8]) -> Option<usize> {
    let longest = text.len().min(pattern.len().saturating_sub(1));
    (SHORTEST..=longest)
        .rev()
        .find(|length| pattern.get(pattern.len() - length..).is_some_and(|rest| text.starts_with(rest)))
}

/// A text that comes in pieces, scrubbed as it comes. What may be the beginning of a secret is held back, at most one byte less
/// than the longest form of one.
#[derive(Debug)]
pub struct ScrubbedStream {
    scrubber: Arc<Scrubber>,
    held: String,
    /// How much of the beginning of what is held has been replaced already.
    covered: usize,
}

impl ScrubbedStream {
    /// Takes the next piece; gives what can be shown by now.
    pub fn feed(&mut self, text: &str) -> String {
        if self.scrubber.is_idle() {
            return text.to_owned();
        }
        self.held.push_str(text);
        let until = self.scrubber.pending(&self.held);
        self.show(until)
    }

    /// What was held back, when no more is to come.
    pub fn finish(mut self) -> String {
        self.show(self.held.len())
    }

    /// Shows what is held up to `until`. A secret that reaches beyond is shown, and the rest of it remembered.
    fn show(&mut self, until: usize) -> String {
        let scrubber = self.scrubber.clone();
        let mut shown = String::new();
        let mut at = self.covered;
        for span in scrubber.spans(&self.held) {
            if span.start >= until {
                break;
            }
            if span.end <= at {
                continue;
            }
            if span.start >= at {
                shown.push_str(self.held.get(at..span.start).unwrap_or_default());
                shown.push_str(span.marker);
            }
            at = span.end;
        }
        shown.push_str(self.held.get(at..until).unwrap_or_default());
        self.covered = at.saturating_sub(until);
        drop(self.held.drain(..until));
        shown
    }
}

#[cfg(test)]
mod tests;
