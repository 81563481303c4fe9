//! Encrypts a value for its row and decrypts it there.
//!
//! ChaCha20-Poly1305 with a random nonce for every write. The associated data are the identifying
//! fields of the row with length prefixes, so that no two rows share them.

use std::fmt;

use ring::aead::{Aad, NONCE_LEN, Nonce};
use secrecy::ExposeSecret as _;

use super::{SecretKeys, SecretPlace, SecretValue, SecretVersion};

pub const KEY_BYTES: usize = 32;
pub const NONCE_BYTES: usize = NONCE_LEN;

/// Prefix of the associated data, so that these keys can serve other purposes too.
const CONTEXT: &[u8] = b"sched secret, form 1";

#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    pub key_id: String,
    pub nonce: [u8; NONCE_BYTES],
    pub ciphertext: Vec<u8>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// The cipher rejects only values beyond the accepted length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value could not be encrypted")]
pub struct SealError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("it is encrypted with key {key_id:?}, which is not in this process's SECRETS_KEY_FILE")]
    UnknownKey { key_id: String },
    /// Another key under the same id, the value of another row, or a manual change.
    #[error(
        "it does not open with key {key_id:?}: that id has another key here, or the row was changed by hand"
    )]
    Refused { key_id: String },
    #[error("it opens to something that cannot be a secret")]
    NotAValue,
}

impl SecretKeys {
    /// `nonce` must be new and random for every call.
    pub fn seal(
        &self,
        secret: SecretVersion<'_>,
        value: &SecretValue,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Sealed, SealError> {
        let (key_id, key) = self.writing();
        let data = Aad::from(associated(secret, key_id));
        let mut buffer = value.0.expose_secret().as_bytes().to_vec();
        let sealed = key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), data, &mut buffer);
        sealed.map_err(|_says_nothing| SealError)?;
        Ok(Sealed { key_id: key_id.to_owned(), nonce, ciphertext: buffer })
    }

    pub fn open(&self, secret: SecretVersion<'_>, sealed: &Sealed) -> Result<SecretValue, OpenError> {
        let key_id = &sealed.key_id;
        let key = self.by_id(key_id).ok_or_else(|| OpenError::UnknownKey { key_id: key_id.clone() })?;
        let data = Aad::from(associated(secret, key_id));
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let mut buffer = sealed.ciphertext.clone();
        let opened = key.open_in_place(nonce, data, &mut buffer);
        let length = opened.map_err(|_says_nothing| OpenError::Refused { key_id: key_id.clone() })?.len();
        // The same buffer becomes the value, so no copy of it stays behind.
        buffer.truncate(length);
        let text = String::from_utf8(buffer).map_err(|_holds_the_value| OpenError::NotAValue)?;
        SecretValue::new(text.into()).map_err(|_no_value| OpenError::NotAValue)
    }
}

fn associated(secret: SecretVersion<'_>, key_id: &str) -> Vec<u8> {
    let SecretVersion { place: SecretPlace { tenant, project, name }, version } = secret;
    let version = version.to_be_bytes();
    let project = project.map(|project| project.0.into_bytes());
    let project = project.as_ref().map_or(&[][..], |bytes| &bytes[..]);
    let mut data = CONTEXT.to_vec();
    for part in [&tenant.0.into_bytes()[..], project, name.as_bytes(), key_id.as_bytes(), &version] {
        data.extend_from_slice(&(part.len() as u64).to_be_bytes());
        data.extend_from_slice(part);
    }
    data
}
