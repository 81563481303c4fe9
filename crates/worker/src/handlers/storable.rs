//! Makes what foreign programs produce acceptable to PostgreSQL.
//!
//! `text` takes neither NUL nor invalid UTF-8, and `jsonb` refuses `\u0000` inside strings. One such byte would make
//! the completion of an attempt fail forever, so they are replaced at the door. Pure functions.

use serde_json::Value;

/// What stands in for bytes that cannot be stored.
const REPLACEMENT: char = '\u{FFFD}';

/// Bytes as text: NUL and whatever is not UTF-8 become U+FFFD. At most three times as long as the input.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') {
        text.replace('\0', REPLACEMENT.encode_utf8(&mut [0; 4]))
    } else {
        text.into_owned()
    }
}

/// The same for every string and key of a JSON value.
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
    fn nul_is_replaced_at_every_depth_of_json() {
        let value = json!({"a\u{0}": ["x\u{0}", {"b": "\u{0}"}], "n": 1.5, "z": null});
        let expected = json!({"a\u{FFFD}": ["x\u{FFFD}", {"b": "\u{FFFD}"}], "n": 1.5, "z": null});
        assert_eq!(super::json(value), expected);
    }
}
