//! The rules for the headers of a request.

use std::collections::{BTreeMap, BTreeSet};

use super::super::template::{Form, Template};
use super::super::{Mistakes, TextOrSecret};

const MAX_HEADERS: usize = 50;
const MAX_VALUE_BYTES: usize = 8 * 1024;
const MAX_NAME_BYTES: usize = 128;

/// They belong to the connection or to the worker.
const RESERVED: [&str; 17] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "range",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

const RESERVED_PREFIXES: [&str; 2] = ["proxy-", "webhook-"];

pub(super) fn check(headers: &BTreeMap<String, TextOrSecret>, mistakes: &mut Mistakes) {
    if headers.len() > MAX_HEADERS {
        mistakes.add("headers", format!("must be at most {MAX_HEADERS}"));
    }
    let mut seen = BTreeSet::new();
    for (name, value) in headers {
        let field = format!("headers.{name}");
        if let Some(reason) = refusal(name) {
            mistakes.add(field, reason);
        } else if !seen.insert(name.to_ascii_lowercase()) {
            mistakes.add(field, "is there twice: names of headers are the same in any case");
        } else if let Some(text) = value.text()
            && let Err(reason) = check_value(text)
        {
            mistakes.add(field, reason);
        }
    }
}

fn refusal(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_token) {
        return Some("is not a header name: letters, digits and hyphens");
    }
    if RESERVED.contains(&lower.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| lower.starts_with(prefix))
    {
        return Some("is refused: the worker sets it, or it steers the connection and not the request");
    }
    None
}

fn check_value(text: &str) -> Result<(), String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    if text.len() > MAX_VALUE_BYTES {
        return Err(format!("is longer than {MAX_VALUE_BYTES} bytes"));
    }
    if is_header_value(&template.sample(Form::Plain)) { Ok(()) } else { Err(NO_CONTROL.into()) }
}

pub const NO_CONTROL: &str = "must not contain line ends or other control characters";

/// No control character but the tab.
#[must_use]
pub fn is_header_value(text: &str) -> bool {
    !text.chars().any(|c| c != '\t' && c.is_control())
}

/// The name matches in any case.
pub(super) fn text<'a>(headers: &'a BTreeMap<String, TextOrSecret>, name: &str) -> Option<&'a TextOrSecret> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
