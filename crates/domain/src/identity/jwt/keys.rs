//! The keys that tokens are verified with: a shared secret, or public keys out of a JWK set (RFC 7517). Pure.
//!
//! Of a set, keys that are for something else are passed over, since issuers publish all they have in one. What remains must be sound: a
//! short RSA key is passed over too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::JwtAlgorithm;

/// Fewest bytes of a shared secret: as many as the hash has.
pub const SHORTEST_SECRET: usize = 32;
/// Most keys of a set that are looked at.
const MOST_KEYS: usize = 64;
/// Bytes of one coordinate on P-256.
const COORDINATE: usize = 32;

/// A key that tokens are verified with.
#[derive(Clone)]
pub struct VerifyingKey {
    id: Option<String>,
    material: Material,
}

#[derive(Clone)]
enum Material {
    Secret(hmac::Key),
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
}

/// The id only.
impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifyingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why a set of keys cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwkSetError {
    /// Not JSON with a list `keys`.
    #[error("it is no set of JSON web keys")]
    Malformed,
    /// None of its keys is one for this algorithm.
    #[error("it holds no key that signs as JWT_ALGORITHM says")]
    Empty,
}

impl VerifyingKey {
    /// A shared secret.
    ///
    /// # Errors
    /// It is shorter than [`SHORTEST_SECRET`].
    pub fn secret(secret: &SecretString) -> Result<Self, &'static str> {
        let bytes = secret.expose_secret().as_bytes();
        if bytes.len() < SHORTEST_SECRET {
            return Err("must have at least 32 bytes");
        }
        Ok(Self { id: None, material: Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)) })
    }

    pub(super) const fn algorithm(&self) -> JwtAlgorithm {
        match self.material {
            Material::Secret(_) => JwtAlgorithm::Hs256,
            Material::Rsa { .. } => JwtAlgorithm::Rs256,
            Material::P256(_) => JwtAlgorithm::Es256,
        }
    }

    /// Whether a token that names this key id may have been signed with it.
    #[must_use]
    pub fn may_be(&self, id: Option<&str>) -> bool {
        match (self.id.as_deref(), id) {
            (Some(own), Some(named)) => own == named,
            // A secret has no id, and a token need not name the key of a set of one.
            (None, _) | (_, None) => true,
        }
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Secret(key) => hmac::verify(key, message, signature),
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// The keys of a JWK set that sign with this algorithm.
///
/// # Errors
/// It is no set, or has no such key.
pub fn parse_key_set(text: &[u8], algorithm: JwtAlgorithm) -> Result<Vec<VerifyingKey>, JwkSetError> {
    let set: Value = serde_json::from_slice(text).map_err(|_says_little| JwkSetError::Malformed)?;
    let listed = set.get("keys").and_then(Value::as_array).ok_or(JwkSetError::Malformed)?;
    let keys: Vec<VerifyingKey> =
        listed.iter().take(MOST_KEYS).filter_map(|key| parse_key(key, algorithm)).collect();
    if keys.is_empty() { Err(JwkSetError::Empty) } else { Ok(keys) }
}

fn parse_key(key: &Value, algorithm: JwtAlgorithm) -> Option<VerifyingKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let is_free = |name: &str, expected: &str| text(name).is_none_or(|value| value == expected);
    if !is_free("use", "sig") || !is_free("alg", algorithm.as_str()) {
        return None;
    }
    let bytes = |name| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    let material = match (algorithm, text("kty")?) {
        (JwtAlgorithm::Rs256, "RSA") => {
            // Leading zeros are allowed here, and refused by the arithmetic.
            let trimmed = |name| {
                let bytes: Vec<u8> = bytes(name)?;
                Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>())
            };
            let n = trimmed("n")?;
            (n.len() >= 256).then_some(())?;
            Material::Rsa { n, e: trimmed("e")? }
        }
        (JwtAlgorithm::Es256, "EC") if text("crv") == Some("P-256") => {
            let (x, y): (Vec<u8>, Vec<u8>) = (bytes("x")?, bytes("y")?);
            (x.len() == COORDINATE && y.len() == COORDINATE).then_some(())?;
            Material::P256([&[4], x.as_slice(), y.as_slice()].concat())
        }
        // A secret has no place in a published set.
        _ => return None,
    };
    Some(VerifyingKey { id: text("kid").map(str::to_owned), material })
}
