//! The key file: one key a line, the first for writing, all for reading.
//!
//! `<id> <32 bytes in base64>`; empty lines and lines that begin with `#` are passed over. A mistake is told by its line and
//! never with what stands there, because it may be a key.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use secrecy::SecretString;

use super::super::job::check_name;
use super::seal::KEY_BYTES;

/// Longest id of a key; the column says the same.
const LONGEST_KEY_ID: usize = 64;

/// The keys of an installation, at least one.
pub struct SecretKeys {
    first: (String, LessSafeKey),
    others: Vec<(String, LessSafeKey)>,
}

/// Ids only.
impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretKeys").field(&self.ids().collect::<Vec<_>>()).finish()
    }
}

/// A key file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// There is none.
    #[error("there is no key in it; `schedctl secrets keygen` makes one")]
    Empty,
    /// A line has another form.
    #[error("line {line} {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl SecretKeys {
    /// Reads the text of a key file.
    ///
    /// # Errors
    /// The first line that is wrong, without what stands in it.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut keys: Vec<(String, LessSafeKey)> = Vec::new();
        for (index, content) in text.lines().map(str::trim).enumerate() {
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let wrong = |what| KeyFileError::Line { line: index + 1, what };
            let (id, key) = read_line(content).map_err(wrong)?;
            if keys.iter().any(|(earlier, _)| *earlier == id) {
                return Err(wrong("has the id of an earlier line"));
            }
            keys.push((id, key));
        }
        let mut keys = keys.into_iter();
        Ok(Self { first: keys.next().ok_or(KeyFileError::Empty)?, others: keys.collect() })
    }

    /// The id of the key that writes.
    #[must_use]
    pub fn writing_id(&self) -> &str {
        &self.first.0
    }

    /// The ids of all keys, in their order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.first).chain(&self.others).map(|(id, _)| id.as_str())
    }

    pub(super) fn writing(&self) -> (&str, &LessSafeKey) {
        (&self.first.0, &self.first.1)
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&LessSafeKey> {
        std::iter::once(&self.first).chain(&self.others).find(|(own, _)| own == id).map(|(_, key)| key)
    }
}

fn read_line(content: &str) -> Result<(String, LessSafeKey), &'static str> {
    let mut words = content.split_ascii_whitespace();
    let (Some(id), Some(key), None) = (words.next(), words.next(), words.next()) else {
        return Err("must be the id of a key, a space, and the key in base64");
    };
    if check_name(id, LONGEST_KEY_ID).is_err() {
        return Err("begins with no id: 1 to 64 lower-case letters, digits, dots, underscores or hyphens");
    }
    let not_a_key = "has no key of 32 bytes in base64 after its id";
    let bytes = STANDARD.decode(key).map_err(|_may_show_the_key| not_a_key)?;
    let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_wrong_length| not_a_key)?;
    Ok((id.to_owned(), LessSafeKey::new(key)))
}

/// The line of a key file for a new key of random bytes.
#[must_use]
pub fn key_line(id: &str, bytes: &[u8; KEY_BYTES]) -> SecretString {
    format!("{id} {}\n", STANDARD.encode(bytes)).into()
}
