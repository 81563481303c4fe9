//! Tokens of an identity provider.
//!
//! A token names the user and the tenant. The permissions come from the user's membership, so a
//! provider can grant no more than the owners of the tenant. A claim `sched_scope` limits a token
//! as scopes limit an API key.

mod key_set;
mod look_up;

use sched_model::domain::identity::jwt::{JwtRules, VerifyingKey};
use sched_runtime::exit::BoxError;
use sched_runtime::private_file;
use secrecy::{ExposeSecret as _, SecretString};

use crate::config::{JwtKeys, JwtSettings};
use key_set::KeySet;
pub(super) use look_up::look_up;

#[derive(Debug)]
pub(crate) struct Tokens {
    rules: JwtRules,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    Secret(VerifyingKey),
    Set(KeySet),
}

impl Tokens {
    /// Reads the secret, if tokens are signed with one. Fetches no keys yet.
    pub(crate) fn new(settings: JwtSettings) -> Result<Self, BoxError> {
        let keys = match settings.keys {
            JwtKeys::SecretFile(path) => {
                let text = private_file::read(&path)?;
                let line = text.expose_secret();
                let line = line.strip_suffix('\n').unwrap_or(line);
                let secret = SecretString::from(line.strip_suffix('\r').unwrap_or(line).to_owned());
                Keys::Secret(
                    VerifyingKey::secret(&secret).map_err(|what| format!("{}: {what}", path.display()))?,
                )
            }
            JwtKeys::Set(url) => Keys::Set(KeySet::new(url, settings.rules.algorithm)?),
        };
        Ok(Self { rules: settings.rules, keys })
    }
}
