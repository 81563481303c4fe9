//! W3C trace contexts: they join a request, the run it created, its attempts and their outgoing
//! calls.
//!
//! A run without a request starts its own trace with the id of the run, so that the tick writes no
//! further column. An attempt is the span with the attempt's id, so that the worker, the API and
//! the log use the same one. Pure.

use std::fmt;

use super::ids::{DispatchId, ExecutionId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

/// The only flag that every participant understands.
const SAMPLED: u8 = 1;

impl TraceContext {
    /// `None` if it is malformed, which the specification treats as absent. Of an unknown version,
    /// the known parts are read.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if hex(version, 2)? == 0xff || version == "00" && parts.next().is_some() {
            return None;
        }
        let (trace, span) = (hex(trace, 32)?, u64::try_from(hex(span, 16)?).ok()?);
        let flags = u8::try_from(hex(flags, 2)?).ok()?;
        (trace != 0 && span != 0).then_some(Self { trace, span, flags: flags & SAMPLED })
    }

    /// A new trace, from 16 and 8 random bytes.
    #[must_use]
    pub fn begin(trace: u128, span: u64) -> Self {
        // Zeros mean absence.
        Self { trace: trace.max(1), span: span.max(1), flags: SAMPLED }
    }

    /// The parent of a run's attempts: the request that created the run, or the run's own trace.
    #[must_use]
    pub fn of_dispatch(id: DispatchId, traceparent: Option<&str>) -> Self {
        traceparent.and_then(Self::parse).unwrap_or_else(|| Self::begin(id.0.as_u128(), id.0.as_u64_pair().1))
    }

    #[must_use]
    pub fn child(self, span: u64) -> Self {
        Self { span: span.max(1), ..self }
    }

    #[must_use]
    pub fn attempt(self, id: ExecutionId) -> Self {
        self.child(id.0.as_u64_pair().1)
    }

    #[must_use]
    pub fn ids(&self) -> (u128, u64) {
        (self.trace, self.span)
    }

    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    #[must_use]
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// Exactly `digits` hex digits, in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    (text.len() == digits && is_hex).then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;
    use crate::ids::{ClaimToken, execution_id, time_ordered};

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn malformed_trace_context_is_ignored() {
        let sound = format!("00-{TRACE}-b7ad6b7169203331-01");
        for (text, expected) in [
            (sound.clone(), Some(sound.clone())),
            (format!("00-{TRACE}-b7ad6b7169203331-00"), Some(format!("00-{TRACE}-b7ad6b7169203331-00"))),
            // Unknown flags and later versions are not passed on.
            (format!("00-{TRACE}-b7ad6b7169203331-ff"), Some(sound.clone())),
            (format!("cc-{TRACE}-b7ad6b7169203331-01-more"), Some(sound.clone())),
            (format!("{sound}-more"), None),
            (format!("ff-{TRACE}-b7ad6b7169203331-01"), None),
            (sound.to_uppercase(), None),
            (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-0000000000000000-01"), None),
            (format!("00-{TRACE}-b7ad6b7169203331"), None),
            (format!("00-+{}-b7ad6b7169203331-01", "1".repeat(31)), None),
            ("00-0af7-b7ad6b7169203331-01".into(), None),
            ("é".into(), None),
            (String::new(), None),
        ] {
            let found = TraceContext::parse(&text);
            assert_eq!(found.map(|context| context.to_string()), expected, "{text}");
            let is_sampled = expected.map(|text| text.ends_with("-01"));
            assert_eq!(found.map(|context| context.is_sampled()), is_sampled, "{text}");
        }
    }

    #[test]
    fn run_joins_the_trace_of_its_request() {
        let id = DispatchId(time_ordered(DateTime::from_timestamp_millis(1_790_000_000_000).unwrap()));
        let asked = TraceContext::of_dispatch(id, Some(&format!("00-{TRACE}-b7ad6b7169203331-01")));
        assert_eq!((asked.trace_id().as_str(), asked.span_id().as_str()), (TRACE, "b7ad6b7169203331"));
        for none in [None, Some("broken")] {
            let own = TraceContext::of_dispatch(id, none);
            assert_eq!(own.trace_id(), id.0.simple().to_string());
            assert_eq!(own.ids(), (id.0.as_u128(), id.0.as_u64_pair().1));
            assert!(own.is_sampled());
            assert_eq!(TraceContext::parse(&own.to_string()), Some(own), "it is sound");
        }
    }

    #[test]
    fn attempts_are_separate_spans_of_one_trace() {
        let at = DateTime::from_timestamp_millis(1_790_000_000_000).unwrap();
        let id = DispatchId(time_ordered(at));
        let dispatch = TraceContext::of_dispatch(id, None);
        let spans: std::collections::HashSet<String> = (1..=1_000)
            .map(|token| {
                let attempt = dispatch.attempt(execution_id(at, id, ClaimToken(token)));
                assert_eq!(attempt.trace_id(), dispatch.trace_id());
                attempt.span_id()
            })
            .chain([dispatch.span_id()])
            .collect();
        assert_eq!(spans.len(), 1_001);
    }

    #[test]
    fn trace_ids_are_never_zero() {
        let none = DispatchId(Uuid::nil());
        let context = TraceContext::of_dispatch(none, None).attempt(ExecutionId(Uuid::nil()));
        assert!(TraceContext::parse(&context.to_string()).is_some());
    }
}
