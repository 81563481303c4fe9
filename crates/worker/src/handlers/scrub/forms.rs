//! The forms in which a secret may stand in output.
//!
//! As it is and without white space around it; each line of a value of several; escaped as in JSON; percent-encoded as in URLs
//! and forms; in base64, padded or not, URL-safe or not, also in the middle of something longer (as a password in a `Basic`
//! header); in hexadecimal. Long values, which are certificates and the like, have fewer forms, so that looking for them stays
//! cheap. Pure.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::SHORTEST;

/// Shortest line of a value of several lines that is looked for by itself.
const SHORTEST_LINE: usize = 8;
/// Longest value that is looked for in most of its forms.
const LONGEST_IN_MOST: usize = 4096;
/// Longest value that is looked for as every encoder of URLs would write it.
const LONGEST_IN_ALL: usize = 512;

/// Every form of a value, longest first.
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
    // What was too short as it is must not come back in a longer form: nobody would know it for a secret.
    if value.trim().len() < SHORTEST {
        return Vec::new();
    }
    let mut found: Vec<Vec<u8>> =
        found.into_iter().filter(|form| form.len() >= SHORTEST).map(String::into_bytes).collect();
    found.sort_by_key(|form| std::cmp::Reverse(form.len()));
    found
}

/// As JSON writes it: plainly, with `\/`, and in ASCII.
fn json(text: &str) -> Vec<String> {
    // A text can always be written.
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

/// What encoders leave as it is, those of RFC 3986 first.
const LEFT_ALONE: [&str; 5] = ["-._~", "-._~/", "-._~!'()*", "-._~!'()*;/?:@&=+$,#", "*-._"];

/// As URLs and forms write it.
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

/// In base64, alone and as part of something longer: at each of the three offsets that a value may have there, without the
/// characters that depend on its neighbours.
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
