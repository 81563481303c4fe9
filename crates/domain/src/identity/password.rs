//! Passwords: their rules and their stored hash.
//!
//! Argon2id with the parameters of its authors and OWASP (19 MiB, two passes). It takes tens of
//! milliseconds of a core, so callers run it off the request threads and limit concurrency. The
//! hash contains its parameters, so they may change later. Pure.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use secrecy::{ExposeSecret as _, SecretString};

pub const SALT_BYTES: usize = 16;
/// In characters.
pub const SHORTEST_PASSWORD: usize = 12;
/// In bytes; bounds the cost of hashing.
pub const LONGEST_PASSWORD: usize = 1024;

/// The hash of no user. A sign-in with an unknown name is verified against it, so that the response
/// time does not reveal whether the user exists.
pub const NOBODYS_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$oO3iFDkpHtXYxkY2P2Dx7A$mfN4hmZHqjdcxzkbwKnWiVJBhD9xGBn4922yOOwLCiw";

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hash of a password cannot be read")]
pub struct InvalidHash;

/// The message continues "the password" and never contains it.
pub fn check_password(password: &SecretString) -> Result<(), &'static str> {
    let text = password.expose_secret();
    if text.chars().count() < SHORTEST_PASSWORD {
        Err("must have at least 12 characters")
    } else if text.len() > LONGEST_PASSWORD {
        Err("must be no longer than 1024 bytes")
    } else if text.contains('\0') {
        Err("contains a NUL character")
    } else {
        Ok(())
    }
}

/// `salt` must be random and new for every call. Does not fail for a password that
/// [`check_password`] accepts.
pub fn hash_password(password: &SecretString, salt: [u8; SALT_BYTES]) -> Result<String, InvalidHash> {
    let hashed = Argon2::default().hash_password_with_salt(password.expose_secret().as_bytes(), &salt);
    Ok(hashed.map_err(|_says_nothing| InvalidHash)?.to_string())
}

pub fn verify_password(password: &SecretString, hash: &str) -> Result<bool, InvalidHash> {
    let hash = PasswordHash::new(hash).map_err(|_may_show_it| InvalidHash)?;
    Ok(Argon2::default().verify_password(password.expose_secret().as_bytes(), &hash).is_ok())
}
