//! Secrets: rules for names and values, encryption, and references in a configuration.
//!
//! Pure: the key file arrives as text, the nonce as an argument. The types of values print nothing.
//! A process that dies here leaves nothing behind.
//!
//! Guarantee of the encryption: with the database but without the key file, an attacker learns the
//! length of a value and nothing else. A value opens only in its own row, because tenant, project,
//! name, key and version are authenticated with it. No guarantee: an attacker who can write rows
//! can restore an older row as a whole, or delete one.

mod keys;
mod named;
mod seal;

use secrecy::{ExposeSecret as _, SecretString};

use super::ids::{ProjectId, TenantId};
use super::name::check_name;

pub use keys::{KeyFileError, SecretKeys, key_line};
pub use named::{NamedSecret, named_secrets};
pub use seal::{KEY_BYTES, NONCE_BYTES, OpenError, SealError, Sealed};

/// Longest name of a secret; equal to the limit of its column.
pub const LONGEST_SECRET_NAME: usize = 100;
/// Longest value in bytes of UTF-8: what one environment variable can carry, with room to spare.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;

/// Which secret a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretPlace<'a> {
    pub tenant: TenantId,
    /// The project it is for; `None` for the whole tenant.
    pub project: Option<ProjectId>,
    pub name: &'a str,
}

impl<'a> SecretPlace<'a> {
    /// A version of the secret.
    #[must_use]
    pub fn version(self, version: i64) -> SecretVersion<'a> {
        SecretVersion { place: self, version }
    }
}

/// A version of a secret, to which its value is bound by the encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretVersion<'a> {
    pub place: SecretPlace<'a>,
    pub version: i64,
}

/// A value that may be kept as a secret.
#[derive(Debug, Clone)]
pub struct SecretValue(SecretString);

impl SecretValue {
    /// Checks a value. The message continues "the value" and never contains it.
    pub fn new(value: SecretString) -> Result<Self, &'static str> {
        let text = value.expose_secret();
        if text.is_empty() {
            Err("is empty")
        } else if text.len() > MAX_SECRET_BYTES {
            Err("is longer than 65536 bytes")
        } else if text.contains('\0') {
            Err("contains a NUL character, which neither a variable nor a header can carry")
        } else {
            Ok(Self(value))
        }
    }

    /// The value, to be given to what it is for.
    #[must_use]
    pub fn into_inner(self) -> SecretString {
        self.0
    }
}

/// Checks the name of a secret. The message continues "the name".
pub fn check_secret_name(name: &str) -> Result<(), String> {
    check_name(name, LONGEST_SECRET_NAME)
}

#[cfg(test)]
mod tests;
