//! The key file: one key per line. The first key encrypts, all keys decrypt.
//!
//! `<id> <32 bytes in base64>`; empty lines and lines that start with `#` are skipped. An error
//! names the line and never its content, which may be a key.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ring::hmac;
use secrecy::SecretString;

use super::super::name::check_name;
use super::seal::KEY_BYTES;

/// Equal to the limit of its column.
const LONGEST_KEY_ID: usize = 64;

/// Derives the key for hashes of API keys, so that one key serves both uses.
const HASHING: &[u8] = b"sched api key hash, form 1";

pub struct SecretKeys {
    first: RingKey,
    others: Vec<RingKey>,
}

struct RingKey {
    id: String,
    sealing: LessSafeKey,
    /// For the hashes of API keys; reveals nothing about the key.
    hashing: hmac::Key,
}

/// Ids only.
impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretKeys").field(&self.ids().collect::<Vec<_>>()).finish()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    #[error("it has no key; create one with `schedctl secrets keygen`")]
    Empty,
    #[error("line {line} {what}")]
    Line { line: usize, what: &'static str },
}

impl SecretKeys {
    /// The error is about the first wrong line.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut keys: Vec<RingKey> = Vec::new();
        for (index, content) in text.lines().map(str::trim).enumerate() {
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let wrong = |what| KeyFileError::Line { line: index + 1, what };
            let key = read_line(content).map_err(wrong)?;
            if keys.iter().any(|earlier| earlier.id == key.id) {
                return Err(wrong("has the id of an earlier line"));
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        Ok(Self { first: keys.next().ok_or(KeyFileError::Empty)?, others: keys.collect() })
    }

    #[must_use]
    pub fn writing_id(&self) -> &str {
        &self.first.id
    }

    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.all().map(|key| key.id.as_str())
    }

    fn all(&self) -> impl Iterator<Item = &RingKey> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn writing(&self) -> (&str, &LessSafeKey) {
        (&self.first.id, &self.first.sealing)
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&LessSafeKey> {
        self.all().find(|key| key.id == id).map(|key| &key.sealing)
    }

    pub(crate) fn writing_hashes(&self) -> &hmac::Key {
        &self.first.hashing
    }

    /// For stored hashes that name this key.
    pub(crate) fn hashes_of(&self, id: &str) -> Option<&hmac::Key> {
        self.all().find(|key| key.id == id).map(|key| &key.hashing)
    }
}

fn read_line(content: &str) -> Result<RingKey, &'static str> {
    let mut words = content.split_ascii_whitespace();
    let (Some(id), Some(key), None) = (words.next(), words.next(), words.next()) else {
        return Err("must be the id of a key, a space, and the key in base64");
    };
    if check_name(id, LONGEST_KEY_ID).is_err() {
        return Err("begins with no id: 1 to 64 lower-case letters, digits, dots, underscores or hyphens");
    }
    let not_a_key = "has no key of 32 bytes in base64 after its id";
    let bytes = STANDARD.decode(key).map_err(|_may_show_the_key| not_a_key)?;
    let sealing = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_wrong_length| not_a_key)?;
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes), HASHING);
    let hashing = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
    Ok(RingKey { id: id.to_owned(), sealing: LessSafeKey::new(sealing), hashing })
}

#[must_use]
pub fn key_line(id: &str, bytes: &[u8; KEY_BYTES]) -> SecretString {
    format!("{id} {}\n", STANDARD.encode(bytes)).into()
}
