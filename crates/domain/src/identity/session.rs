//! The session token of a browser, its stored hash, and its CSRF token.
//!
//! `<id>_<secret>`: the id finds the row and is not secret; the secret has 256 random bits. The
//! stored hash is HMAC-SHA-256 of both, keyed by the key ring, or by the id without one. The CSRF
//! token is another HMAC, keyed by the session token. It is not stored, cannot be computed without
//! the session token, and is invalid in another session. Pure.

use std::fmt;

use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};
use uuid::Uuid;

use super::super::ids::SessionId;
use super::super::secret::SecretKeys;
use super::base32;
use super::{KeyHash, SECRET_BYTES, UnknownRingKey};

const ID_LENGTH: usize = 32;
/// Prefix, so that a hash under the same key for another purpose never matches.
const FOR_HASH: &str = "session ";
/// The same for the CSRF token.
const FOR_CSRF: &str = "csrf ";

/// Only [`SessionToken::text`] reveals its text.
#[derive(Clone)]
pub struct SessionToken {
    id: SessionId,
    text: SecretString,
}

/// The id only.
impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionToken").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Contains no part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session cookie is not valid; sign in again")]
pub struct InvalidToken;

impl SessionToken {
    #[must_use]
    pub fn new(id: SessionId, secret: [u8; SECRET_BYTES]) -> Self {
        Self { id, text: format!("{}_{}", id.0.simple(), base32::encode(&secret)).into() }
    }

    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        let (id, secret) = text.split_once('_').ok_or(InvalidToken)?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let is_whole =
            id.len() == ID_LENGTH && id.bytes().all(is_hex) && base32::is_encoding(secret, SECRET_BYTES);
        if !is_whole {
            return Err(InvalidToken);
        }
        let id = Uuid::try_parse(id).map_err(|_no_id| InvalidToken)?;
        Ok(Self { id: SessionId(id), text: text.to_owned().into() })
    }

    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    #[must_use]
    pub const fn text(&self) -> &SecretString {
        &self.text
    }

    #[must_use]
    pub fn hash(&self, ring: Option<&SecretKeys>) -> KeyHash {
        let message = self.message(FOR_HASH);
        let tag = match ring {
            Some(ring) => hmac::sign(ring.writing_hashes(), message.expose_secret().as_bytes()),
            None => hmac::sign(&self.own_hashing(), message.expose_secret().as_bytes()),
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(tag.as_ref());
        KeyHash { ring_key: ring.map(|ring| ring.writing_id().to_owned()), hash }
    }

    /// Compares in constant time.
    pub fn fits(
        &self,
        hash: &[u8],
        ring_key: Option<&str>,
        ring: Option<&SecretKeys>,
    ) -> Result<bool, UnknownRingKey> {
        let message = self.message(FOR_HASH);
        let message = message.expose_secret().as_bytes();
        let verified = match ring_key {
            Some(id) => {
                let hashing = ring.and_then(|ring| ring.hashes_of(id));
                hmac::verify(hashing.ok_or_else(|| UnknownRingKey(id.to_owned()))?, message, hash)
            }
            None => hmac::verify(&self.own_hashing(), message, hash),
        };
        Ok(verified.is_ok())
    }

    /// Required for requests that change data. A page of another origin cannot know it.
    #[must_use]
    pub fn csrf(&self) -> String {
        base32::encode(hmac::sign(&self.csrf_key(), FOR_CSRF.as_bytes()).as_ref())
    }

    /// Compares in constant time.
    #[must_use]
    pub fn is_csrf(&self, shown: &str) -> bool {
        let key = self.csrf_key();
        hmac::verify(&key, shown.as_bytes(), hmac::sign(&key, self.csrf().as_bytes()).as_ref()).is_ok()
    }

    fn message(&self, purpose: &str) -> SecretString {
        format!("{purpose}{}", self.text.expose_secret()).into()
    }

    fn own_hashing(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.id.0.as_bytes())
    }

    fn csrf_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.text.expose_secret().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::secret::{KEY_BYTES, key_line};
    use super::*;

    fn token(byte: u8) -> SessionToken {
        SessionToken::new(SessionId(Uuid::from_u128(u128::from(byte))), [byte; SECRET_BYTES])
    }

    #[test]
    fn session_token_round_trips_and_malformed_is_rejected() {
        let text = token(7).text().expose_secret().to_owned();
        let read = SessionToken::parse(&text).unwrap();
        assert_eq!((read.id(), read.text().expose_secret()), (token(7).id(), text.as_str()));
        let (_, secret) = text.split_at(33);
        assert!(!format!("{read:?}").contains(secret), "{read:?}");
        let swapped = text.replace('_', "-");
        for bad in [
            "",
            "_",
            text.split_at(1).1,
            text.split_at(text.len() - 1).0,
            &text.to_uppercase(),
            &swapped,
            &format!("{text}a"),
        ] {
            assert_eq!(SessionToken::parse(bad).unwrap_err(), InvalidToken, "{bad:?}");
        }
    }

    #[test]
    fn hash_matches_only_its_token() {
        let line = |id: &str| key_line(id, &[1; KEY_BYTES]).expose_secret().to_owned();
        let (ring, other) = (SecretKeys::parse(&line("a")).unwrap(), SecretKeys::parse(&line("b")).unwrap());
        for ring in [None, Some(&ring)] {
            let kept = token(1).hash(ring);
            let fits = |token: &SessionToken| token.fits(&kept.hash, kept.ring_key.as_deref(), ring).unwrap();
            assert!(fits(&token(1)) && !fits(&token(2)));
            let forged = SessionToken::new(token(1).id(), [2; SECRET_BYTES]);
            assert!(!fits(&forged));
        }
        let kept = token(1).hash(Some(&ring));
        let unknown = token(1).fits(&kept.hash, kept.ring_key.as_deref(), Some(&other));
        assert_eq!(unknown, Err(UnknownRingKey("a".to_owned())));
        assert_ne!(kept.hash, token(1).hash(None).hash);
    }

    #[test]
    fn csrf_token_belongs_to_one_session() {
        let csrf = token(1).csrf();
        assert!(token(1).is_csrf(&csrf) && !token(2).is_csrf(&csrf));
        for bad in ["", csrf.split_at(1).1, &csrf.to_uppercase(), token(1).text().expose_secret()] {
            assert!(!token(1).is_csrf(bad), "{bad}");
        }
        assert!(!token(1).text().expose_secret().contains(&csrf));
    }
}
