//! Verifies the tokens of an identity provider (JWT, RFC 7519) and reads user and tenant.
//!
//! The configuration fixes issuer, algorithm and keys; a header with another algorithm, `none`
//! included, is rejected. The key fields of a header (`jwk`, `jku`, `x5u`) are ignored; its `kid`
//! only selects one of our keys. Issuer, audience, `exp` and `nbf` are required (RFC 8725).
//!
//! The crate `jsonwebtoken` checks algorithm, signature, issuer and audience. This module checks
//! the times, because that crate reads the clock of the machine; the caller passes the time of the
//! database. Pure.

mod keys;
mod ring_provider;

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use sched_vocabulary::text_enum;
use serde_json::{Map, Value};

pub use keys::{JwkSetError, SHORTEST_SECRET, VerifyingKey, parse_key_set};

text_enum! {
    pub enum JwtAlgorithm {
        Hs256 = "HS256",
        /// PKCS #1 v1.5.
        Rs256 = "RS256",
        Es256 = "ES256",
    }
}

impl JwtAlgorithm {
    const fn in_library(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
        }
    }
}

/// Allowed difference between the clocks of issuer and database.
pub const LEEWAY_SECONDS: f64 = 30.0;
const LONGEST: usize = 8 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtRules {
    pub issuer: String,
    /// The issuer's name for this API.
    pub audience: String,
    pub algorithm: JwtAlgorithm,
    pub user_claim: String,
    pub tenant_claim: String,
}

/// Contains no part of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("the value is not a JSON web token")]
    Malformed,
    #[error("the token is not signed with the algorithm of this API's token issuer")]
    Algorithm,
    #[error("the token has an unsupported `typ` or `crit` header")]
    Kind,
    #[error("the token is not signed with a key of its issuer")]
    Signature,
    #[error("the claim {0} of the token is missing or not valid for this API")]
    Claim(&'static str),
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSubject {
    pub email: String,
    /// `None` selects the default tenant.
    pub tenant: Option<String>,
    /// Words of the claim `sched_scope`; empty when the token is unrestricted.
    pub scopes: Vec<String>,
}

/// Nothing in it is verified.
#[derive(Debug, Clone, Copy)]
pub struct UnverifiedJwt<'a> {
    text: &'a str,
}

impl<'a> UnverifiedJwt<'a> {
    #[must_use]
    pub fn new(text: &'a str) -> Option<Self> {
        let is_shaped = text.len() <= LONGEST && text.split('.').count() == 3;
        is_shaped.then_some(Self { text })
    }

    pub fn key_id(self) -> Result<Option<String>, JwtError> {
        Ok(self.header()?.kid)
    }

    pub fn verify(
        self,
        rules: &JwtRules,
        keys: &[VerifyingKey],
        now: DateTime<Utc>,
    ) -> Result<JwtSubject, JwtError> {
        self.signed(rules, keys)?.verify_claims(rules, now)
    }

    /// Checks header, signature, issuer and audience, which need no clock. No claim is read before
    /// the signature is verified.
    pub fn signed(self, rules: &JwtRules, keys: &[VerifyingKey]) -> Result<SignedJwt, JwtError> {
        ring_provider::install();
        let header = self.header()?;
        check_header(&header, rules.algorithm)?;
        let validation = validation(rules);
        let id = header.kid.as_deref();
        for key in keys.iter().filter(|key| key.algorithm() == rules.algorithm && key.may_be(id)) {
            match decode::<Map<String, Value>>(self.text, key.decoding(), &validation) {
                Ok(token) => return SignedJwt::new(token.claims),
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
                Err(error) => return Err(rejection(&error)),
            }
        }
        Err(JwtError::Signature)
    }

    fn header(self) -> Result<Header, JwtError> {
        decode_header(self.text).map_err(|error| match error.kind() {
            // A JSON object, but not a valid header: its `alg` is missing or unknown.
            ErrorKind::Json(_) if self.has_object_as_header() => JwtError::Algorithm,
            _ => JwtError::Malformed,
        })
    }

    fn has_object_as_header(self) -> bool {
        let header = self.text.split('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        header.is_some_and(|json| serde_json::from_slice::<Map<String, Value>>(&json).is_ok())
    }
}

/// Signature, issuer and audience are verified.
#[derive(Debug, Clone)]
pub struct SignedJwt {
    claims: Map<String, Value>,
}

impl SignedJwt {
    fn new(claims: Map<String, Value>) -> Result<Self, JwtError> {
        // The library accepts a list of issuers, which RFC 7519 does not allow.
        if claims.get("iss").is_some_and(Value::is_string) {
            Ok(Self { claims })
        } else {
            Err(JwtError::Claim("iss"))
        }
    }

    /// Checks the times against `now`.
    pub fn verify_claims(&self, rules: &JwtRules, now: DateTime<Utc>) -> Result<JwtSubject, JwtError> {
        check_times(&self.claims, now)?;
        subject(&self.claims, rules)
    }
}

fn validation(rules: &JwtRules) -> Validation {
    let mut validation = Validation::new(rules.algorithm.in_library());
    validation.required_spec_claims = HashSet::from(["iss".to_owned(), "aud".to_owned()]);
    validation.set_issuer(&[&rules.issuer]);
    validation.set_audience(&[&rules.audience]);
    // `check_times` does it, with the time of the database.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation
}

fn rejection(error: &Error) -> JwtError {
    match error.kind() {
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => JwtError::Claim("aud"),
        ErrorKind::InvalidAudience => JwtError::Claim("aud"),
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidIssuer => JwtError::Claim("iss"),
        ErrorKind::InvalidAlgorithm => JwtError::Algorithm,
        ErrorKind::Base64(_) | ErrorKind::Json(_) | ErrorKind::Utf8(_) => JwtError::Malformed,
        _ => JwtError::Signature,
    }
}

fn check_header(header: &Header, expected: JwtAlgorithm) -> Result<(), JwtError> {
    if header.alg != expected.in_library() {
        return Err(JwtError::Algorithm);
    }
    let is_ours = header
        .typ
        .as_deref()
        .is_none_or(|kind| kind.eq_ignore_ascii_case("JWT") || kind.eq_ignore_ascii_case("at+jwt"));
    // `crit` lists extensions that the receiver must support. This API supports none.
    if is_ours && header.crit.is_none() { Ok(()) } else { Err(JwtError::Kind) }
}

fn check_times(claims: &Map<String, Value>, now: DateTime<Utc>) -> Result<(), JwtError> {
    let seconds = |name| {
        let value = claims.get(name).and_then(Value::as_f64).filter(|seconds| seconds.is_finite());
        value.ok_or(JwtError::Claim(name))
    };
    // Tokens have whole seconds, so the cast loses nothing.
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
    // An unconfirmed address can belong to another person.
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
