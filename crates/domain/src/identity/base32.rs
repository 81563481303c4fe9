//! Bytes as lower-case letters and the digits 2 to 7, five bits each, without padding. Pure.
//!
//! No character of it means anything to a shell, a URL or a header, and a double click takes the whole of it.

const ALPHABET: [char; 32] = [
    'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u',
    'v', 'w', 'x', 'y', 'z', '2', '3', '4', '5', '6', '7',
];

/// Writes bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(length_of(bytes.len()));
    let (mut held, mut bits) = (0_u16, 0_u32);
    let mut push = |five: u16| text.extend(ALPHABET.get(usize::from(five & 0x1f)));
    for byte in bytes {
        held = (held << 8 | u16::from(*byte)) & 0x0fff;
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            push(held >> bits);
        }
    }
    if bits > 0 {
        push(held << (5 - bits));
    }
    text
}

/// How long so many bytes are in writing.
pub(super) const fn length_of(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

/// Whether a text is made of these characters alone.
pub(super) fn is_written(text: &str) -> bool {
    text.chars().all(|character| ALPHABET.contains(&character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_rfc_4648_says_in_lower_case() {
        for (bytes, text) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(length_of(bytes.len()), text.len());
            assert!(is_written(text));
        }
        assert_eq!(encode(&[0xff; 10]), "7777777777777777");
        assert!(!is_written("A") && !is_written("1"));
    }
}
