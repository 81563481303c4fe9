//! The OTLP messages for spans, limited to the fields in use.
//!
//! The crate generated from the protocol's files would add the OpenTelemetry SDK to every daemon;
//! the tests decode with it. Field numbers never change, and a collector reads missing fields as
//! empty.

use std::time::SystemTime;

use prost::Message;
use prost::bytes::Bytes;

use super::{Ended, Kind, Value};

/// The W3C flag "sampled": spans without it are not sent.
const SAMPLED: u32 = 1;
const ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

/// A `oneof` of the protocol, with the same encoding: exactly one field is present.
#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(int64, optional, tag = "3")]
    number: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

pub(super) fn resource(attributes: Vec<(String, Value)>) -> Resource {
    Resource { attributes: attributes.into_iter().map(|(key, value)| key_value(key, value)).collect() }
}

pub(super) fn request(resource: &Resource, spans: Vec<Ended>) -> Bytes {
    let scope = Scope { name: "sched".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = spans.into_iter().map(span).collect();
    let resource_spans = ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
    };
    Request { resource_spans: vec![resource_spans] }.encode_to_vec().into()
}

/// The number of spans that a successful response rejects, and the reason; `None` for a response
/// outside the protocol.
pub(super) fn rejected(response: &[u8]) -> Option<(u64, String)> {
    let partial = Response::decode(response).ok()?.partial_success?;
    let count = u64::try_from(partial.rejected_spans).ok().filter(|count| *count > 0)?;
    Some((count, partial.error_message))
}

fn span(ended: Ended) -> Span {
    let Ended { place, at, took, span } = ended;
    Span {
        trace_id: place.trace.to_be_bytes().to_vec(),
        span_id: place.span.to_be_bytes().to_vec(),
        parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.to_be_bytes().to_vec()),
        name: span.name,
        kind: match span.kind {
            Kind::Server => 2,
            Kind::Producer => 4,
            Kind::Consumer => 5,
        },
        start_time_unix_nano: nanoseconds(at.checked_sub(took).unwrap_or(at)),
        end_time_unix_nano: nanoseconds(at),
        attributes: span
            .attributes
            .into_iter()
            .map(|(key, value)| key_value(key.to_owned(), value))
            .collect(),
        status: span.failure.map(|message| Status { message, code: ERROR }),
        flags: SAMPLED,
    }
}

fn key_value(key: String, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => AnyValue { text: Some(text), number: None },
        Value::Number(number) => AnyValue { text: None, number: Some(number) },
    };
    KeyValue { key, value: Some(value) }
}

/// Nanoseconds since 1970; 0 for an earlier time.
fn nanoseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
