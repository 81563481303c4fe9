//! The forms in which output may show a secret.
//!
//! - verbatim, and without surrounding white space
//! - each line of a value with several lines
//! - escaped as in JSON
//! - percent-encoded as in URLs and HTML forms
//! - base64, padded or not, URL-safe or not, also inside a longer encoded text, such as a password
//!   in a `Basic` header
//! - hexadecimal
//!
//! Long values, such as certificates, have fewer forms, so that the search stays cheap.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::SHORTEST;

/// Shorter lines of a value with several lines are not separate forms.
const SHORTEST_LINE: usize = 8;
/// Longer values have no percent-encoded, unpadded base64 or hexadecimal forms.
const LONGEST_IN_MOST: usize = 4096;
/// Longer values have the percent-encoding of RFC 3986 only.
const LONGEST_IN_ALL: usize = 512;

pub(super) fn of(value: &str) -> Vec<Vec<u8>> {
    let mut found = BTreeSet::new();
    for text in [value, value.trim()] {
        found.insert(text.to_owned());
        found.extend(json(text));
        for encoded in [STANDARD.encode(text), URL_SAFE.encode(text)] {
            found.insert(encoded);
        }
        if text.len() <= LONGEST_IN_MOST {
            let dialects = if text.len() <= LONGEST_IN_ALL { LEFT_ALONE.len() } else { 1 };
            found.extend(percent(text, dialects));
            found.extend(base64(text.as_bytes()));
            found.insert(hexadecimal(text, |byte| format!("{byte:02x}")));
            found.insert(hexadecimal(text, |byte| format!("{byte:02X}")));
        }
    }
    if value.contains('\n') {
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
        found.extend(lines.map(str::to_owned));
    }
    // A value that is too short verbatim must not match in a longer form: readers would not
    // recognise it.
    if value.trim().len() < SHORTEST {
        return Vec::new();
    }
    let mut found: Vec<Vec<u8>> =
        found.into_iter().filter(|form| form.len() >= SHORTEST).map(String::into_bytes).collect();
    found.sort_by_key(|form| std::cmp::Reverse(form.len()));
    found
}

/// JSON escapes: plain, with `\/`, and ASCII only.
fn json(text: &str) -> Vec<String> {
    // Serializing a string cannot fail.
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let mut ascii = String::new();
    for character in inner.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    vec![inner.replace('/', "\\/"), ascii, inner.to_owned()]
}

/// The characters that URL encoders do not escape. RFC 3986 is first.
const LEFT_ALONE: [&str; 5] = ["-._~", "-._~/", "-._~!'()*", "-._~!'()*;/?:@&=+$,#", "*-._"];

fn percent(text: &str, dialects: usize) -> Vec<String> {
    let encode = |left_alone: &str, upper: bool, space: &str| {
        let mut encoded = String::new();
        for byte in text.bytes() {
            if byte == b' ' {
                encoded.push_str(space);
            } else if byte.is_ascii_alphanumeric() || left_alone.as_bytes().contains(&byte) {
                encoded.push(char::from(byte));
            } else if upper {
                encoded.push_str(&format!("%{byte:02X}"));
            } else {
                encoded.push_str(&format!("%{byte:02x}"));
            }
        }
        encoded
    };
    let mut found = Vec::new();
    for left_alone in LEFT_ALONE.into_iter().take(dialects) {
        for (upper, space) in [(true, "%20"), (true, "+"), (false, "%20"), (false, "+")] {
            found.push(encode(left_alone, upper, space));
        }
    }
    found
}

/// Also inside a longer text: at each of three offsets, without the characters that depend on
/// adjacent bytes.
fn base64(value: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        found.push(engine.encode(value));
        for offset in 0..3_usize {
            let shifted: Vec<u8> = std::iter::repeat_n(0, offset).chain(value.iter().copied()).collect();
            let encoded = engine.encode(&shifted);
            let own = (offset * 8).div_ceil(6)..shifted.len() * 8 / 6;
            found.extend(encoded.get(own).map(str::to_owned));
        }
    }
    found
}

fn hexadecimal(text: &str, digits: impl Fn(u8) -> String) -> String {
    text.bytes().map(digits).collect()
}
