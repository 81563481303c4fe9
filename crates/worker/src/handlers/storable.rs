//! Converts data of foreign programs to a form that PostgreSQL accepts.
//!
//! `text` accepts neither NUL nor invalid UTF-8, and `jsonb` rejects `\u0000`. One such byte would
//! fail the completion of an attempt forever.

use serde_json::Value;

const REPLACEMENT: char = '\u{FFFD}';

/// NUL and invalid UTF-8 become U+FFFD, at most tripling the length.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') {
        text.replace('\0', REPLACEMENT.encode_utf8(&mut [0; 4]))
    } else {
        text.into_owned()
    }
}

/// Pieces may be cut anywhere. The joined text equals [`text`] of the joined bytes.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The first bytes of an incomplete character, at most three.
    cut: Vec<u8>,
}

impl Decoder {
    /// Keeps back an incomplete character at the end.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.cut);
        all.extend_from_slice(bytes);
        let whole = without_cut_end(&all).len();
        self.cut = all.split_off(whole);
        text(&all)
    }

    pub(super) fn finish(&mut self) -> String {
        text(&std::mem::take(&mut self.cut))
    }

    /// Returns the number of dropped bytes.
    pub(super) fn reset(&mut self) -> usize {
        std::mem::take(&mut self.cut).len()
    }
}

/// Bytes that a cut leaves of one character.
pub(super) const LONGEST_REST: usize = 3;

pub(super) fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Removes an incomplete character at the end.
pub(super) fn without_cut_end(bytes: &[u8]) -> &[u8] {
    let lead = bytes.iter().rev().take(LONGEST_REST).position(|byte| !is_continuation(*byte));
    let Some(after_lead) = lead else { return bytes };
    let (before, character) = bytes.split_at(bytes.len().saturating_sub(after_lead + 1));
    // `None` exactly if the bytes are valid so far and only end too early.
    let is_cut = std::str::from_utf8(character).is_err_and(|error| error.error_len().is_none());
    if is_cut { before } else { bytes }
}

/// Converts every string and key with [`text`].
pub(super) fn json(value: Value) -> Value {
    match value {
        Value::String(string) => Value::String(text(string.as_bytes())),
        Value::Array(items) => Value::Array(items.into_iter().map(json).collect()),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(key, value)| (text(key.as_bytes()), json(value))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn nul_and_invalid_utf8_are_replaced() {
        let table: [(&[u8], &str); 5] = [
            (b"plain", "plain"),
            ("grüß".as_bytes(), "grüß"),
            (b"a\0b", "a\u{FFFD}b"),
            (b"\xff\xfe\0", "\u{FFFD}\u{FFFD}\u{FFFD}"),
            (b"cut \xe2\x82", "cut \u{FFFD}"),
        ];
        for (bytes, expected) in table {
            assert_eq!(super::text(bytes), expected);
        }
    }

    #[test]
    fn decoder_is_independent_of_chunk_sizes() {
        for bytes in [
            &b"plain"[..],
            "grüß 中 👩‍🔬".as_bytes(),
            b"a\0\xff\xe2\x82",
            b"\x80\x80\x80\x80",
            b"\xf0\x9f\x92\xe2\x82\xac",
        ] {
            for size in 1..=bytes.len() {
                let mut decoder = super::Decoder::default();
                let mut all: String = bytes.chunks(size).map(|piece| decoder.push(piece)).collect();
                all.push_str(&decoder.finish());
                assert_eq!(all, super::text(bytes), "{bytes:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn nul_is_replaced_at_every_depth_of_json() {
        let value = json!({"a\u{0}": ["x\u{0}", {"b": "\u{0}"}], "n": 1.5, "z": null});
        let expected = json!({"a\u{FFFD}": ["x\u{FFFD}", {"b": "\u{FFFD}"}], "n": 1.5, "z": null});
        assert_eq!(super::json(value), expected);
    }
}
