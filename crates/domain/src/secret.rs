//! Secrets: rules for names and values, encryption, and references in a configuration.
//!
//! With the database but without the key file, an attacker learns only the length of a value. A
//! value opens only in its own row, because tenant, project, name, key and version are
//! authenticated with it. An attacker with write access to rows can restore an older row as a
//! whole, or delete one. Pure: the key file and the nonce are arguments. The types of values print
//! nothing.

mod keys;
mod named;
mod seal;

use secrecy::{ExposeSecret as _, SecretString};

use super::ids::{ProjectId, TenantId};
use super::name::check_name;

pub use keys::{KeyFileError, SecretKeys, key_line};
pub use named::{NamedSecret, named_secrets};
pub use seal::{KEY_BYTES, NONCE_BYTES, OpenError, SealError, Sealed};

/// Equal to the limit of its column.
pub const LONGEST_SECRET_NAME: usize = 100;
/// In bytes of UTF-8: fits one environment variable, with room to spare.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretPlace<'a> {
    pub tenant: TenantId,
    /// `None` for the whole tenant.
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

#[derive(Debug, Clone)]
pub struct SecretValue(SecretString);

impl SecretValue {
    /// The message continues "the value" and never contains it.
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

    #[must_use]
    pub fn into_inner(self) -> SecretString {
        self.0
    }
}

/// The message continues "the name".
pub fn check_secret_name(name: &str) -> Result<(), String> {
    check_name(name, LONGEST_SECRET_NAME)
}

#[cfg(test)]
mod tests;
