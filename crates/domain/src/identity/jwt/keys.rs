//! The keys that verify tokens: a shared secret, or public keys from a JWK set (RFC 7517).
//!
//! The parser skips keys for another purpose or algorithm, malformed keys, and RSA keys of less
//! than 2048 bits. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize as _;
use serde_json::Value;

use super::JwtAlgorithm;

/// In bytes: the output size of the hash.
pub const SHORTEST_SECRET: usize = 32;
const MOST_KEYS: usize = 64;
const POINT: usize = 65;
const SHORTEST_MODULUS: usize = 256;

#[derive(Clone)]
pub struct VerifyingKey {
    id: Option<String>,
    algorithm: JwtAlgorithm,
    key: DecodingKey,
}

/// Shows only the id.
impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifyingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwkSetError {
    #[error("the document is not a JSON web key set")]
    Malformed,
    #[error("the set has no key for the algorithm in JWT_ALGORITHM")]
    Empty,
}

impl VerifyingKey {
    /// Rejects a secret that is shorter than [`SHORTEST_SECRET`].
    pub fn secret(secret: &SecretString) -> Result<Self, &'static str> {
        let bytes = secret.expose_secret().as_bytes();
        if bytes.len() < SHORTEST_SECRET {
            return Err("must have at least 32 bytes");
        }
        Ok(Self { id: None, algorithm: JwtAlgorithm::Hs256, key: DecodingKey::from_secret(bytes) })
    }

    pub(super) const fn algorithm(&self) -> JwtAlgorithm {
        self.algorithm
    }

    pub(super) const fn decoding(&self) -> &DecodingKey {
        &self.key
    }

    #[must_use]
    pub fn may_be(&self, id: Option<&str>) -> bool {
        match (self.id.as_deref(), id) {
            (Some(own), Some(named)) => own == named,
            // A secret has no id, and a token need not name the key of a set with one key.
            (None, _) | (_, None) => true,
        }
    }
}

pub fn parse_key_set(text: &[u8], algorithm: JwtAlgorithm) -> Result<Vec<VerifyingKey>, JwkSetError> {
    let set: Value = serde_json::from_slice(text).map_err(|_says_little| JwkSetError::Malformed)?;
    let listed = set.get("keys").and_then(Value::as_array).ok_or(JwkSetError::Malformed)?;
    let keys: Vec<VerifyingKey> =
        listed.iter().take(MOST_KEYS).filter_map(|key| parse_key(key, algorithm)).collect();
    if keys.is_empty() { Err(JwkSetError::Empty) } else { Ok(keys) }
}

fn parse_key(key: &Value, algorithm: JwtAlgorithm) -> Option<VerifyingKey> {
    let Jwk { common, algorithm: parameters } = Jwk::deserialize(key).ok()?;
    let is_for_signatures = common.public_key_use.is_none_or(|purpose| purpose == PublicKeyUse::Signature);
    let own = KeyAlgorithm::from(algorithm.in_library());
    if !is_for_signatures || common.key_algorithm.is_some_and(|named| named != own) {
        return None;
    }
    let key = match (algorithm, parameters) {
        (JwtAlgorithm::Rs256, AlgorithmParameters::RSA(rsa)) => {
            // A JWK may have leading zeros; ring rejects them.
            let trimmed = |text: &str| {
                let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
                Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>())
            };
            let n = trimmed(&rsa.n)?;
            (n.len() >= SHORTEST_MODULUS).then_some(())?;
            DecodingKey::from_rsa_raw_components(&n, &trimmed(&rsa.e)?)
        }
        (JwtAlgorithm::Es256, AlgorithmParameters::EllipticCurve(ec)) if ec.curve == EllipticCurve::P256 => {
            let key = DecodingKey::from_ec_components(&ec.x, &ec.y).ok()?;
            let is_point = key.try_get_as_bytes().is_ok_and(|point| point.len() == POINT);
            (is_point && ec.x.len() == ec.y.len()).then_some(key)?
        }
        // A published set must not contain a secret.
        _ => return None,
    };
    Some(VerifyingKey { id: common.key_id, algorithm, key })
}
