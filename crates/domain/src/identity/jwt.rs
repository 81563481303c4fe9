//! Tokens of an identity provider (JWT, RFC 7519): whether one is genuine and meant for us, and whom it names.
//!
//! One issuer, whose algorithm is fixed by configuration and never taken from the token: a header that names another is refused, `none`
//! among them. Keys come from the configuration alone; what a header says of keys (`jwk`, `jku`, `x5u`) is not looked at, and its `kid`
//! only chooses among ours. Issuer, audience, end and beginning must be there (RFC 8725). Pure: keys and the instant are arguments.

mod keys;

use sched_vocabulary::text_enum;
use std::str::FromStr as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

pub use keys::{JwkSetError, SHORTEST_SECRET, VerifyingKey, parse_key_set};

text_enum! {
    /// How the tokens of an issuer are signed.
    pub enum JwtAlgorithm {
        /// HMAC-SHA-256, with a secret that both sides have.
        Hs256 = "HS256",
        /// RSA with SHA-256, PKCS #1 v1.5.
        Rs256 = "RS256",
        /// ECDSA with SHA-256 on P-256.
        Es256 = "ES256",
    }
}

/// How far the clocks of the issuer and of the database may differ, in seconds.
pub const LEEWAY_SECONDS: f64 = 30.0;
/// Longest token that is looked at.
const LONGEST: usize = 8 * 1024;

/// What tokens must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtRules {
    /// The one who signs.
    pub issuer: String,
    /// Us, as the issuer calls us.
    pub audience: String,
    /// How they are signed.
    pub algorithm: JwtAlgorithm,
    /// The claim that holds the address of the user.
    pub user_claim: String,
    /// The claim that holds the slug of the tenant.
    pub tenant_claim: String,
}

/// Why a token is refused. Shows nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// Not three parts of JSON and a signature.
    #[error("it is no JSON web token")]
    Malformed,
    /// Signed in another way than tokens of this issuer are.
    #[error("the token is not signed as tokens for this API are")]
    Algorithm,
    /// Of another kind, or with demands that we do not know.
    #[error("the token is of another kind than those for this API")]
    Kind,
    /// The signature is not that of any of our keys.
    #[error("the token is not signed by a key of its issuer")]
    Signature,
    /// A claim is missing or wrong.
    #[error("the claim {0} of the token is missing or not one for this API")]
    Claim(&'static str),
    /// Its time is over, or has not begun.
    #[error("the token has expired")]
    Expired,
    /// Its time has not begun.
    #[error("the token is not valid yet")]
    Early,
}

/// Whom a token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSubject {
    /// Address of the user.
    pub email: String,
    /// Slug of the tenant; that of every installation when the token names none.
    pub tenant: Option<String>,
    /// The words of the claim `scope`; empty when nothing bounds the token.
    pub scopes: Vec<String>,
}

/// A token whose parts were read and not believed yet.
#[derive(Debug, Clone, Copy)]
pub struct UnverifiedJwt<'a> {
    text: &'a str,
}

struct Parts<'a> {
    header: Map<String, Value>,
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> UnverifiedJwt<'a> {
    /// A text that is shaped like a token.
    #[must_use]
    pub fn new(text: &'a str) -> Option<Self> {
        let is_shaped = text.len() <= LONGEST && text.split('.').count() == 3;
        is_shaped.then_some(Self { text })
    }

    /// The id of the key it says it was signed with.
    ///
    /// # Errors
    /// It is no token.
    pub fn key_id(self) -> Result<Option<String>, JwtError> {
        match self.parts()?.header.get("kid") {
            Some(Value::String(id)) => Ok(Some(id.clone())),
            Some(_) => Err(JwtError::Malformed),
            None => Ok(None),
        }
    }

    /// Whom it names, if one of `keys` has signed it and it is meant for us at `now`.
    ///
    /// # Errors
    /// Why it is not believed. The signature is looked at before any claim is.
    pub fn verify(
        self,
        rules: &JwtRules,
        keys: &[VerifyingKey],
        now: DateTime<Utc>,
    ) -> Result<JwtSubject, JwtError> {
        self.signed(rules, keys)?.judge(rules, now)
    }

    /// The token, if one of `keys` has signed it. What it says is not looked at yet.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn signed(self, rules: &JwtRules, keys: &[VerifyingKey]) -> Result<SignedJwt, JwtError> {
        let parts = self.parts()?;
        check_header(&parts.header, rules.algorithm)?;
        let id = parts.header.get("kid").and_then(Value::as_str);
        let is_signed = keys
            .iter()
            .filter(|key| key.algorithm() == rules.algorithm && key.may_be(id))
            .any(|key| key.verifies(parts.signed.as_bytes(), &parts.signature));
        if !is_signed {
            return Err(JwtError::Signature);
        }
        Ok(SignedJwt { claims: object(parts.claims)? })
    }

    fn parts(self) -> Result<Parts<'a>, JwtError> {
        let (signed, signature) = self.text.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_may_show_it| JwtError::Malformed)?;
        Ok(Parts { header: object(header)?, signed, claims, signature })
    }
}

/// A token that was signed by whom we trust.
#[derive(Debug, Clone)]
pub struct SignedJwt {
    claims: Map<String, Value>,
}

impl SignedJwt {
    /// Whom it names, if it is meant for us at `now`.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn judge(&self, rules: &JwtRules, now: DateTime<Utc>) -> Result<JwtSubject, JwtError> {
        check_claims(&self.claims, rules, now)?;
        subject(&self.claims, rules)
    }
}

fn object(part: &str) -> Result<Map<String, Value>, JwtError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_may_show_it| JwtError::Malformed)?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) | Err(_) => Err(JwtError::Malformed),
    }
}

fn check_header(header: &Map<String, Value>, expected: JwtAlgorithm) -> Result<(), JwtError> {
    let algorithm =
        header.get("alg").and_then(Value::as_str).and_then(|word| JwtAlgorithm::from_str(word).ok());
    if algorithm != Some(expected) {
        return Err(JwtError::Algorithm);
    }
    let is_ours = match header.get("typ") {
        None => true,
        Some(Value::String(kind)) => kind.eq_ignore_ascii_case("JWT") || kind.eq_ignore_ascii_case("at+jwt"),
        Some(_) => false,
    };
    // `crit` demands that we understand what it lists, and we understand none of it.
    if is_ours && !header.contains_key("crit") { Ok(()) } else { Err(JwtError::Kind) }
}

fn check_claims(claims: &Map<String, Value>, rules: &JwtRules, now: DateTime<Utc>) -> Result<(), JwtError> {
    if claims.get("iss").and_then(Value::as_str) != Some(&rules.issuer) {
        return Err(JwtError::Claim("iss"));
    }
    let is_us = match claims.get("aud") {
        Some(Value::String(audience)) => *audience == rules.audience,
        Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(&rules.audience)),
        _ => false,
    };
    if !is_us {
        return Err(JwtError::Claim("aud"));
    }
    let seconds = |name| {
        let value = claims.get(name).and_then(Value::as_f64).filter(|seconds| seconds.is_finite());
        value.ok_or(JwtError::Claim(name))
    };
    // Tokens count whole seconds, so nothing is lost by counting the present in them.
    let now = f64::from(u32::try_from(now.timestamp()).unwrap_or(u32::MAX));
    if now >= seconds("exp")? + LEEWAY_SECONDS {
        return Err(JwtError::Expired);
    }
    if now < seconds("nbf")? - LEEWAY_SECONDS {
        return Err(JwtError::Early);
    }
    Ok(())
}

fn subject(claims: &Map<String, Value>, rules: &JwtRules) -> Result<JwtSubject, JwtError> {
    // An address that its owner has not confirmed may be anybody's.
    if claims.get("email_verified").is_some_and(|verified| *verified != Value::Bool(true)) {
        return Err(JwtError::Claim("email_verified"));
    }
    let email =
        claims.get(&rules.user_claim).and_then(Value::as_str).ok_or(JwtError::Claim("of the user"))?;
    let tenant = match claims.get(&rules.tenant_claim) {
        None => None,
        Some(Value::String(slug)) => Some(slug.clone()),
        Some(_) => return Err(JwtError::Claim("of the tenant")),
    };
    let scopes = match claims.get("sched_scope") {
        None => Vec::new(),
        Some(Value::String(words)) if !words.trim().is_empty() => {
            words.split_ascii_whitespace().map(str::to_owned).collect()
        }
        Some(_) => return Err(JwtError::Claim("sched_scope")),
    };
    Ok(JwtSubject { email: email.to_owned(), tenant, scopes })
}

#[cfg(test)]
mod tests;
