//! Base32 in lower case and without padding (RFC 4648, section 6), for keys and session tokens.
//!
//! No character has a meaning in a shell, a URL or a header.

use data_encoding::BASE32_NOPAD;

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = BASE32_NOPAD.encode(bytes);
    text.make_ascii_lowercase();
    text
}

pub(super) fn encoded_len(bytes: usize) -> usize {
    BASE32_NOPAD.encode_len(bytes)
}

/// Checks length and characters. Does not decode, so no copy of a secret remains in memory.
pub(super) fn is_encoding(text: &str, bytes: usize) -> bool {
    text.len() == encoded_len(bytes) && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_is_rfc_4648_in_lower_case() {
        for (bytes, text) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(encoded_len(bytes.len()), text.len());
            assert!(is_encoding(text, bytes.len()));
        }
        assert_eq!(encode(&[0xff; 10]), "7777777777777777");
        for bad in ["My", "1y", "m=", "mzx", "m", "é"] {
            assert!(!is_encoding(bad, 1), "{bad}");
        }
    }
}
