//! The form of API keys, and their stored hash.
//!
//! `sched_<environment>_<id>_<secret><checksum>`: scanners find leaked keys by the first word. The
//! environment separates installations, the id finds the row, and the checksum detects a typing
//! mistake without a query. The first three parts are the prefix, which is not secret.
//!
//! The stored hash is HMAC-SHA-256 of the whole key. Its HMAC key derives from the writing key of
//! the key ring (`SECRETS_KEY_FILE`). Without a ring it is the prefix, so that a hash matches only
//! one row. A fast hash suffices for 256 random bits.

use std::fmt;

use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::super::secret::SecretKeys;
use super::base32;

pub const ID_BYTES: usize = 10;
pub const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 5;
const HASH_BYTES: usize = 32;
const BRAND: &str = "sched";
const LONGEST_ENVIRONMENT: usize = 16;

/// Only [`ApiKey::text`] reveals its text.
#[derive(Clone)]
pub struct ApiKey {
    text: SecretString,
    prefix: String,
}

/// The prefix only.
impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Contains no part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFormError {
    #[error("the value is not an API key; a key has the form sched_<environment>_<id>_<secret>")]
    NoKey,
    /// Most likely an incomplete copy.
    #[error("the API key is mistyped or incomplete: its checksum is wrong")]
    Checksum,
}

#[derive(Clone, PartialEq, Eq)]
pub struct KeyHash {
    /// The key of the ring that made it; `None` without a ring.
    pub ring_key: Option<String>,
    pub hash: [u8; HASH_BYTES],
}

/// Without the hash.
impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHash").field("ring_key", &self.ring_key).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its hash needs key {0:?}, which is not in this process's SECRETS_KEY_FILE")]
pub struct UnknownRingKey(pub String);

/// The message continues "the environment".
pub fn check_environment(environment: &str) -> Result<(), &'static str> {
    let is_short = (1..=LONGEST_ENVIRONMENT).contains(&environment.len());
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if is_short && environment.bytes().all(is_fit) {
        Ok(())
    } else {
        Err("must be 1 to 16 lower-case letters or digits, such as live")
    }
}

impl ApiKey {
    /// [`check_environment`] must have accepted the environment.
    #[must_use]
    pub fn new(environment: &str, id: [u8; ID_BYTES], secret: [u8; SECRET_BYTES]) -> Self {
        let prefix = format!("{BRAND}_{environment}_{}", base32::encode(&id));
        let mut text = format!("{prefix}_{}", base32::encode(&secret));
        text.push_str(&checksum(&text));
        Self { text: text.into(), prefix }
    }

    pub fn parse(text: &str) -> Result<Self, KeyFormError> {
        let parts: Vec<&str> = text.splitn(5, '_').collect();
        let [brand, environment, id, rest] = parts.as_slice() else { return Err(KeyFormError::NoKey) };
        if *brand != BRAND || check_environment(environment).is_err() {
            return Err(KeyFormError::NoKey);
        }
        let body = text.len().checked_sub(base32::encoded_len(CHECKSUM_BYTES));
        let Some((body, sum)) = body.and_then(|at| text.split_at_checked(at)) else {
            return Err(KeyFormError::NoKey);
        };
        let is_whole = base32::is_encoding(id, ID_BYTES)
            && rest.strip_suffix(sum).is_some_and(|secret| base32::is_encoding(secret, SECRET_BYTES))
            && base32::is_encoding(sum, CHECKSUM_BYTES);
        if !is_whole || checksum(body) != sum {
            return Err(KeyFormError::Checksum);
        }
        let prefix = format!("{brand}_{environment}_{id}");
        Ok(Self { text: text.to_owned().into(), prefix })
    }

    /// Not secret: it finds the row, and messages and logs name the key by it.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    #[must_use]
    pub fn environment(&self) -> &str {
        self.prefix.split('_').nth(1).unwrap_or_default()
    }

    /// The whole key, which is shown once.
    #[must_use]
    pub fn text(&self) -> &SecretString {
        &self.text
    }

    #[must_use]
    pub fn hash(&self, ring: Option<&SecretKeys>) -> KeyHash {
        let tag = match ring {
            Some(ring) => hmac::sign(ring.writing_hashes(), self.text.expose_secret().as_bytes()),
            None => hmac::sign(&self.own_hashing(), self.text.expose_secret().as_bytes()),
        };
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(tag.as_ref());
        KeyHash { ring_key: ring.map(|ring| ring.writing_id().to_owned()), hash }
    }

    /// Whether a stored hash belongs to this key. Compares in constant time.
    pub fn fits(
        &self,
        hash: &[u8],
        ring_key: Option<&str>,
        ring: Option<&SecretKeys>,
    ) -> Result<bool, UnknownRingKey> {
        let text = self.text.expose_secret().as_bytes();
        let verified = match ring_key {
            Some(id) => {
                let hashing = ring.and_then(|ring| ring.hashes_of(id));
                let hashing = hashing.ok_or_else(|| UnknownRingKey(id.to_owned()))?;
                hmac::verify(hashing, text, hash)
            }
            None => hmac::verify(&self.own_hashing(), text, hash),
        };
        Ok(verified.is_ok())
    }

    fn own_hashing(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.prefix.as_bytes())
    }
}

fn checksum(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    base32::encode(digest.get(..CHECKSUM_BYTES).unwrap_or_default())
}
