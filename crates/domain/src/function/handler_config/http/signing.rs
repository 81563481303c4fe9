//! Signing secrets of Standard Webhooks: `whsec_` and 24 to 64 bytes in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::super::{Mistakes, TextOrSecret};

const PREFIX: &str = "whsec_";
/// A rotation needs two.
const MAX_SECRETS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signing {
    /// All of them sign, in this order. During a rotation the old secret follows the new one, so
    /// receivers with either accept the request.
    pub secrets: Vec<TextOrSecret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {PREFIX} followed by 24 to 64 bytes in base64")]
pub struct InvalidSigningSecret;

/// Fails on another form or length.
pub fn signing_key(secret: &str) -> Result<Vec<u8>, InvalidSigningSecret> {
    let encoded = secret.trim().strip_prefix(PREFIX).ok_or(InvalidSigningSecret)?;
    // The base64 error would reveal a part of the secret.
    let key = STANDARD.decode(encoded).map_err(|_not_told| InvalidSigningSecret)?;
    if (24..=64).contains(&key.len()) { Ok(key) } else { Err(InvalidSigningSecret) }
}

pub(super) fn check(signing: &Signing, mistakes: &mut Mistakes) {
    if !(1..=MAX_SECRETS).contains(&signing.secrets.len()) {
        mistakes.add("sign.secrets", format!("must have 1 to {MAX_SECRETS} secrets"));
    }
    for (position, secret) in signing.secrets.iter().enumerate() {
        if let Some(Err(wrong)) = secret.text().map(signing_key) {
            mistakes.add(format!("sign.secrets[{position}]"), wrong.to_string());
        }
    }
}
