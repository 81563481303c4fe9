//! Secrets: what they may be called and hold, how they are sealed, and where a configuration names them.
//!
//! Pure: the key file arrives as text, the nonce as an argument. Values are kept in types that show nothing when they are
//! printed. A process that dies here leaves nothing behind.
//!
//! What sealing promises: who has the database but not the key file learns the length of a value and nothing else; and a
//! value opens only in the row it was sealed for, because tenant, project, name, key and version are authenticated with it.
//! What it does not: who can write rows may bring back an older row as a whole, or delete one.

mod keys;
mod named;
mod seal;

use secrecy::{ExposeSecret as _, SecretString};

use super::ids::{ProjectId, TenantId};
use super::job::check_name;

pub use keys::{KeyFileError, SecretKeys, key_line};
pub use named::{NamedSecret, named_secrets};
pub use seal::{KEY_BYTES, NONCE_BYTES, OpenError, SealError, Sealed};

/// Longest name of a secret; its column says the same.
pub const LONGEST_SECRET_NAME: usize = 100;
/// Longest value in bytes of UTF-8: what one environment variable can carry, with room to spare.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;

/// Which secret a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretPlace<'a> {
    /// Owner.
    pub tenant: TenantId,
    /// The project it is for; `None` for the whole tenant.
    pub project: Option<ProjectId>,
    /// Its name.
    pub name: &'a str,
}

/// A value that may be kept as a secret.
#[derive(Debug, Clone)]
pub struct SecretValue(SecretString);

impl SecretValue {
    /// Judges a value.
    ///
    /// # Errors
    /// What is wrong with it, reading on from "the value"; never the value itself.
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

/// Tells whether a secret may have this name.
///
/// # Errors
/// What is allowed, reading on from "the name".
pub fn check_secret_name(name: &str) -> Result<(), String> {
    check_name(name, LONGEST_SECRET_NAME)
}

#[cfg(test)]
mod tests;
