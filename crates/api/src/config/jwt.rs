//! Settings for tokens of an identity provider. With an issuer, the audience, the algorithm and a
//! key are required.

use std::path::PathBuf;

use sched_model::domain::identity::jwt::{JwtAlgorithm, JwtRules};
use sched_runtime::config::{Setting, Values};
use url::{Host, Url};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "jwt-issuer",
        "JWT_ISSUER",
        "ISSUER",
        "Issuer (claim iss) of tokens (JWT) that are accepted besides API keys; without it, tokens are rejected",
    )
    .example("https://login.example.com/"),
    Setting::new("jwt-audience", "JWT_AUDIENCE", "AUDIENCE", "Audience (claim aud) of tokens for this API")
        .example("sched"),
    Setting::new(
        "jwt-algorithm",
        "JWT_ALGORITHM",
        "ALGORITHM",
        "Signature algorithm of tokens: HS256, RS256 or ES256; the algorithm that a token names must be this one",
    )
    .example("RS256"),
    Setting::new(
        "jwt-secret-file",
        "JWT_SECRET_FILE",
        "FILE",
        "File with the secret of HS256, at least 32 bytes; only its owner may read it; one line end at its end is ignored",
    )
    .example("/etc/sched/jwt.secret"),
    Setting::new(
        "jwt-jwks-url",
        "JWT_JWKS_URL",
        "URL",
        "URL of the public keys (JWKS) of RS256 and ES256; https, or http on loopback",
    )
    .example("https://login.example.com/.well-known/jwks.json"),
    Setting::new("jwt-user-claim", "JWT_USER_CLAIM", "CLAIM", "Claim with the e-mail of the user")
        .default("email"),
    Setting::new(
        "jwt-tenant-claim",
        "JWT_TENANT_CLAIM",
        "CLAIM",
        "Claim with the slug of the tenant; a token without it acts in the tenant default",
    )
    .default("tenant"),
];

/// Rules for tokens, and the source of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    pub rules: JwtRules,
    pub keys: JwtKeys,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtKeys {
    SecretFile(PathBuf),
    Set(Url),
}

/// `None` without an issuer.
pub(super) fn read(values: &mut Values) -> Option<JwtSettings> {
    let issuer = values.optional_string("jwt-issuer");
    let audience = values.optional_string("jwt-audience");
    let algorithm = values.optional_choice::<JwtAlgorithm>("jwt-algorithm", JwtAlgorithm::WORDS);
    let file = values.optional_string("jwt-secret-file").map(PathBuf::from);
    let url = values.optional_string("jwt-jwks-url");
    let user_claim = values.string("jwt-user-claim");
    let tenant_claim = values.string("jwt-tenant-claim");
    let Some(issuer) = issuer else {
        for (name, is_given) in [
            ("jwt-audience", audience.is_some()),
            ("jwt-algorithm", algorithm.is_some()),
            ("jwt-secret-file", file.is_some()),
            ("jwt-jwks-url", url.is_some()),
        ] {
            if is_given {
                values.mistake(name, "has no effect without jwt-issuer (JWT_ISSUER); set that too");
            }
        }
        return None;
    };
    if audience.is_none() {
        values.mistake(
            "jwt-audience",
            "must be set with jwt-issuer, or tokens for another service would be accepted",
        );
    }
    if algorithm.is_none() && values.are_sound(&["jwt-algorithm"]) {
        values.mistake("jwt-algorithm", "must be set with jwt-issuer: HS256, RS256 or ES256");
    }
    let algorithm = algorithm?;
    let keys = match (algorithm, file, url) {
        (JwtAlgorithm::Hs256, Some(file), None) => Some(JwtKeys::SecretFile(file)),
        (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256, None, Some(url)) => match key_set(&url) {
            Some(url) => Some(JwtKeys::Set(url)),
            None => {
                values.mistake("jwt-jwks-url", "must be an https URL, or an http URL on loopback");
                None
            }
        },
        (JwtAlgorithm::Hs256, _, _) => {
            values.mistake("jwt-secret-file", "must be set for HS256, and jwt-jwks-url must not");
            None
        }
        (JwtAlgorithm::Rs256 | JwtAlgorithm::Es256, _, _) => {
            values.mistake("jwt-jwks-url", "must be set for RS256 and ES256, and jwt-secret-file must not");
            None
        }
    };
    let rules = JwtRules { issuer, audience: audience?, algorithm, user_claim, tenant_claim };
    Some(JwtSettings { rules, keys: keys? })
}

fn key_set(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    (url.scheme() == "https" || url.scheme() == "http" && is_local).then_some(url)
}

#[cfg(test)]
mod tests {
    use sched_runtime::config::{MapSource, load};

    use super::*;
    use crate::PROGRAM;

    fn read_all(variables: &[(&str, &str)]) -> Result<Option<JwtSettings>, String> {
        let source: MapSource = variables.iter().copied().collect();
        let mut values = load(&PROGRAM, &[SETTINGS], ["sched-api"], &source).unwrap();
        let settings = read(&mut values);
        values.finish().map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn issuer_requires_the_other_settings() {
        assert_eq!(read_all(&[]).unwrap(), None);
        let base = [("JWT_ISSUER", "i"), ("JWT_AUDIENCE", "a")];
        for (more, part) in [
            (&[("JWT_ALGORITHM", "none")][..], "HS256"),
            (&[("JWT_ALGORITHM", "RS256")], "jwt-jwks-url"),
            (&[("JWT_ALGORITHM", "RS256"), ("JWT_JWKS_URL", "http://idp.example/")], "https"),
            (&[("JWT_ALGORITHM", "HS256"), ("JWT_JWKS_URL", "https://idp.example/")], "jwt-secret-file"),
            (&[], "jwt-algorithm"),
        ] {
            let error = read_all(&[&base[..], more].concat()).unwrap_err();
            assert!(error.contains(part), "{more:?}: {error}");
        }
        assert!(read_all(&[("JWT_AUDIENCE", "a")]).unwrap_err().contains("jwt-issuer"));
        assert!(read_all(&[("JWT_ISSUER", "i")]).unwrap_err().contains("jwt-audience"));
    }

    #[test]
    fn keys_are_a_file_or_an_address() {
        let base = [("JWT_ISSUER", "i"), ("JWT_AUDIENCE", "a")];
        let secret = [("JWT_ALGORITHM", "HS256"), ("JWT_SECRET_FILE", "/s")];
        let read = |more: &[(&str, &str)]| read_all(&[&base[..], more].concat()).unwrap().unwrap();
        assert_eq!(read(&secret).keys, JwtKeys::SecretFile("/s".into()));
        for url in ["https://idp.example/keys", "http://127.0.0.1:9/", "http://[::1]:9/", "http://localhost/"]
        {
            let settings = read(&[("JWT_ALGORITHM", "ES256"), ("JWT_JWKS_URL", url)]);
            assert_eq!(settings.keys, JwtKeys::Set(url.parse().unwrap()));
            assert_eq!(settings.rules.tenant_claim, "tenant");
        }
    }
}
