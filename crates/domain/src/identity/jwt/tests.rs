use chrono::TimeZone as _;
use secrecy::SecretString;
use serde_json::json;

use super::*;

const RSA_MODULUS: &str = concat!(
    "z4xBw_7h5Tco-7gR2F-VffsXnRTlp_y_gcNRsNwhUoBiaDicbbGbVkfLjSXCKl4nfGs_qJsBfsL85cX_AtE0ozOtt9gG9fzP2LlB",
    "VztKWU_L2wY6rHZ0IldjflPuJtYco9aF8dEOMeXTEFTH4WcQwUfmyz_KUTyjTG5btGKRsKZqIgHCmkJF4ewH951rEI-igfxueP4z",
    "HG586Tfyxd00QfZg7eYksRtf8zMfNlYcqlAr9wCTf2nz4LxmZPpILEp7riFxDmZPUwQaFEK6nXw1TZFbxaEwZjC7R548Pyj2ymiL",
    "bauxxnJDoucXphMes-5eqGfePQa9mypt2g2Ey_o-ww"
);
/// Valid from 2023 to 2033 for the rules below.
const RSA_TOKEN: &str = concat!(
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYS0xIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2lkcC5leGFtcGxlIiwiYXVk",
    "Ijoic2NoZWQiLCJleHAiOjIwMDAwMDAwMDAsIm5iZiI6MTcwMDAwMDAwMCwiZW1haWwiOiJhZGFAZXhhbXBsZS5jb20iLCJ0ZW5h",
    "bnQiOiJkZWZhdWx0In0.NAeDOVh2qANPG8gmuJJ4xXPNtJ9BJ_tXP_WvOmM4rk8-YoWfefq9XRxX66bH3VE9KSvhhM9lAWt3UUKx",
    "_9fXfm7KWmjnYlMgnkB4XhtyldSFXP3YaBgxgPqxCRWK4wHnBV2R1bxejggQlMyFAQvawNtl5Gk_YrlUR9ANdS4zxjqYJfzOWey2",
    "55waijivFZyC0xB34fJRR42y_x0vHh6OKtoXXgqkp2f-fgXZ1NLD5S_OJ8b3sL4wr8tU8X1OB2-qGjTpM_ObJSnr5ni1qXFG-On7",
    "ZKntSzUhYTHX8Z6jsH6MhTsOGQDPh0PtSUBgrAVPR8fTMvf6_ZzwRBFhf661bw"
);

const EC_X: &str = "WYw3KFAOLggpO4A1nx_YjQWceI1AZwbUrW5Tne4kbDM";
const EC_Y: &str = "KiBf78mZz90EBDrEoJ6-r0psYAPW9DWiO5679JBccFg";
const EC_TOKEN: &str = concat!(
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImVjLTEifQ.eyJpc3MiOiJodHRwczovL2lkcC5leGFtcGxlIiwiYXVkIjoic2NoZWQiLCJle",
    "HAiOjIwMDAwMDAwMDAsIm5iZiI6MTcwMDAwMDAwMCwiZW1haWwiOiJhZGFAZXhhbXBsZS5jb20iLCJ0ZW5hbnQiOiJkZWZhdWx0I",
    "n0.u3won1QcGwU7CyEeTowDRIAeo5blrugTp1O2cg9FsrH1EAlE6gsNVO3mYdiXqpLegag-aRiBtCNhs8NSmEIs3w"
);

fn rules(algorithm: JwtAlgorithm) -> JwtRules {
    JwtRules {
        issuer: "https://idp.example".into(),
        audience: "sched".into(),
        algorithm,
        user_claim: "email".into(),
        tenant_claim: "tenant".into(),
    }
}

fn now() -> DateTime<Utc> {
    Utc.timestamp_opt(1_800_000_000, 0).unwrap()
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn claims() -> Value {
    json!({
        "iss": "https://idp.example", "aud": "sched", "exp": 1_800_000_060, "nbf": 1_800_000_000,
        "email": "ada@example.com", "tenant": "acme",
    })
}

fn secret() -> SecretString {
    "0123456789abcdef0123456789abcdef".to_owned().into()
}

fn signed(header: &Value, claims: &Value) -> String {
    use secrecy::ExposeSecret as _;
    let message = format!("{}.{}", encoded(header), encoded(claims));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret().expose_secret().as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes())))
}

fn verdict(token: &str, algorithm: JwtAlgorithm, keys: &[VerifyingKey]) -> Result<JwtSubject, JwtError> {
    UnverifiedJwt::new(token).ok_or(JwtError::Malformed)?.verify(&rules(algorithm), keys, now())
}

fn with_secret(header: &Value, claims: &Value) -> Result<JwtSubject, JwtError> {
    verdict(&signed(header, claims), JwtAlgorithm::Hs256, &[VerifyingKey::secret(&secret()).unwrap()])
}

fn rsa_set() -> Value {
    json!({"keys": [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {"kty": "RSA", "use": "enc", "n": RSA_MODULUS, "e": "AQAB", "kid": "rsa-1"},
        {"kty": "RSA", "use": "sig", "alg": "RS256", "n": RSA_MODULUS, "e": "AQAB", "kid": "rsa-1"},
    ]})
}

#[test]
fn issuer_token_names_its_user_and_tenant() {
    let subject = with_secret(&json!({"alg": "HS256", "typ": "JWT"}), &claims()).unwrap();
    assert_eq!((subject.email.as_str(), subject.tenant.as_deref()), ("ada@example.com", Some("acme")));
    assert!(subject.scopes.is_empty());
    let mut bounded = claims();
    bounded["sched_scope"] = json!("jobs:read  jobs:trigger");
    bounded["aud"] = json!(["other", "sched"]);
    let subject = with_secret(&json!({"alg": "HS256", "typ": "at+jwt"}), &bounded).unwrap();
    assert_eq!(subject.scopes, ["jobs:read", "jobs:trigger"]);
}

#[test]
fn header_cannot_change_the_configured_algorithm() {
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "None"}),
        json!({"alg": "hs256"}),
        json!({"alg": "HS512"}),
        json!({"alg": "RS256"}),
        json!({"alg": ["HS256"]}),
        json!({}),
    ] {
        assert_eq!(with_secret(&header, &claims()), Err(JwtError::Algorithm), "{header}");
    }
    // A public key of the issuer as an HMAC secret: the classic attack.
    let keys = parse_key_set(rsa_set().to_string().as_bytes(), JwtAlgorithm::Rs256).unwrap();
    let forged = signed(&json!({"alg": "HS256", "kid": "rsa-1"}), &claims());
    assert_eq!(verdict(&forged, JwtAlgorithm::Rs256, &keys), Err(JwtError::Algorithm));
    assert_eq!(verdict(&forged, JwtAlgorithm::Hs256, &keys), Err(JwtError::Signature));
    let unsigned = format!("{}.{}.", encoded(&json!({"alg": "HS256"})), encoded(&claims()));
    assert_eq!(
        verdict(&unsigned, JwtAlgorithm::Hs256, &[VerifyingKey::secret(&secret()).unwrap()]),
        Err(JwtError::Signature)
    );
}

#[test]
fn header_extensions_are_rejected_and_keys_ignored() {
    let crit = json!({"alg": "HS256", "crit": ["b64"], "b64": false});
    assert_eq!(with_secret(&crit, &claims()), Err(JwtError::Kind));
    assert_eq!(with_secret(&json!({"alg": "HS256", "typ": "secevent+jwt"}), &claims()), Err(JwtError::Kind));
    let own = json!({"alg": "RS256", "jwk": {"kty": "RSA", "n": RSA_MODULUS, "e": "AQAB"}, "jku": "https://evil.example"});
    assert_eq!(verdict(&signed(&own, &claims()), JwtAlgorithm::Rs256, &[]), Err(JwtError::Signature));
}

#[test]
fn required_claims_must_be_present_and_valid() {
    for (name, value, expected) in [
        ("iss", json!("https://evil.example"), JwtError::Claim("iss")),
        ("iss", Value::Null, JwtError::Claim("iss")),
        ("iss", json!(["https://idp.example"]), JwtError::Claim("iss")),
        ("aud", json!("other"), JwtError::Claim("aud")),
        ("aud", json!(["other"]), JwtError::Claim("aud")),
        ("aud", Value::Null, JwtError::Claim("aud")),
        ("exp", Value::Null, JwtError::Claim("exp")),
        ("exp", json!("1800000060"), JwtError::Claim("exp")),
        ("nbf", Value::Null, JwtError::Claim("nbf")),
        ("exp", json!(1_799_999_970), JwtError::Expired),
        ("nbf", json!(1_800_000_031), JwtError::Early),
        ("email", Value::Null, JwtError::Claim("of the user")),
        ("email_verified", json!(false), JwtError::Claim("email_verified")),
        ("email_verified", json!("true"), JwtError::Claim("email_verified")),
        ("tenant", json!(["acme"]), JwtError::Claim("of the tenant")),
        ("sched_scope", json!(""), JwtError::Claim("sched_scope")),
        ("sched_scope", json!(["jobs:read"]), JwtError::Claim("sched_scope")),
    ] {
        let mut wrong = claims();
        wrong[name] = value.clone();
        if value.is_null() {
            wrong.as_object_mut().unwrap().remove(name);
        }
        assert_eq!(with_secret(&json!({"alg": "HS256"}), &wrong), Err(expected), "{name} {value}");
    }
}

#[test]
fn clocks_may_differ_by_thirty_seconds() {
    for (name, value) in [("exp", json!(1_799_999_971)), ("nbf", json!(1_800_000_030)), ("exp", json!(1.9e9))]
    {
        let mut near = claims();
        near[name] = value;
        with_secret(&json!({"alg": "HS256"}), &near).unwrap();
    }
}

#[test]
fn rsa_token_verifies_with_its_key_only() {
    let keys = parse_key_set(rsa_set().to_string().as_bytes(), JwtAlgorithm::Rs256).unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(verdict(RSA_TOKEN, JwtAlgorithm::Rs256, &keys).unwrap().email, "ada@example.com");
    assert_eq!(UnverifiedJwt::new(RSA_TOKEN).unwrap().key_id().unwrap().as_deref(), Some("rsa-1"));
    let (message, signature) = RSA_TOKEN.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let changed = format!("{header}.{}.{signature}", encoded(&claims()));
    assert_eq!(verdict(&changed, JwtAlgorithm::Rs256, &keys), Err(JwtError::Signature));
    let renamed = rsa_set().to_string().replace("rsa-1", "rsa-2");
    let others = parse_key_set(renamed.as_bytes(), JwtAlgorithm::Rs256).unwrap();
    assert_eq!(verdict(RSA_TOKEN, JwtAlgorithm::Rs256, &others), Err(JwtError::Signature));
}

#[test]
fn ecdsa_token_verifies_with_its_key_only() {
    let set = json!({"keys": [{"kty": "EC", "crv": "P-256", "x": EC_X, "y": EC_Y, "kid": "ec-1"}]});
    let keys = parse_key_set(set.to_string().as_bytes(), JwtAlgorithm::Es256).unwrap();
    assert_eq!(verdict(EC_TOKEN, JwtAlgorithm::Es256, &keys).unwrap().email, "ada@example.com");
    assert_eq!(verdict(EC_TOKEN, JwtAlgorithm::Rs256, &keys), Err(JwtError::Algorithm));
    let (message, signature) = EC_TOKEN.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let changed = format!("{header}.{}.{signature}", encoded(&claims()));
    assert_eq!(verdict(&changed, JwtAlgorithm::Es256, &keys), Err(JwtError::Signature));
}

#[test]
fn unusable_key_sets_and_short_secrets_are_rejected() {
    for (set, expected) in [
        (json!({"keys": []}), JwkSetError::Empty),
        (json!({"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}), JwkSetError::Empty),
        (json!({"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}), JwkSetError::Empty),
        (json!([]), JwkSetError::Malformed),
        (json!({"keys": {}}), JwkSetError::Malformed),
    ] {
        for algorithm in [JwtAlgorithm::Rs256, JwtAlgorithm::Es256] {
            assert_eq!(parse_key_set(set.to_string().as_bytes(), algorithm).unwrap_err(), expected, "{set}");
        }
    }
    assert!(VerifyingKey::secret(&"short".to_owned().into()).is_err());
}

#[test]
fn malformed_tokens_are_rejected() {
    for text in ["", "a.b", "a.b.c", "a.b.c.d", "..", "bnVsbA.e30."] {
        assert_eq!(verdict(text, JwtAlgorithm::Hs256, &[]), Err(JwtError::Malformed), "{text}");
    }
    assert_eq!(verdict("e30.e30.e30", JwtAlgorithm::Hs256, &[]), Err(JwtError::Algorithm));
    assert!(UnverifiedJwt::new(&format!("{}.a.b", "x".repeat(10_000))).is_none());
}
