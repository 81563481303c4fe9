//! Identities and their permissions: roles, permissions, API keys, session tokens, passwords.
//!
//! Only [`Principal::permissions`] computes the [`Permission`]s of an identity: from the role in the
//! tenant, the system operator flag, and the scopes of a key, which only remove permissions. Every
//! route requires one permission; one that is not in the set is denied. Pure: random bytes, the key
//! ring and stored hashes are arguments.

mod api_key;
mod base32;
pub mod jwt;
mod password;
mod permission;
mod session;

pub use api_key::{ApiKey, ID_BYTES, KeyFormError, KeyHash, SECRET_BYTES, UnknownRingKey, check_environment};
pub use password::{
    InvalidHash, LONGEST_PASSWORD, NOBODYS_HASH, SALT_BYTES, SHORTEST_PASSWORD, check_password,
    hash_password, verify_password,
};
pub use permission::{Permission, Permissions, Principal, Role, scopes_of};
pub use session::{InvalidToken, SessionToken};

/// Identifies a token in places that must not store it.
#[must_use]
pub fn fingerprint(token: &str) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(token.as_bytes()).into()
}

/// Equal to the limit of its column.
pub const LONGEST_EMAIL: usize = 320;
/// In characters; equal to the limit of the columns.
pub const LONGEST_DISPLAY_NAME: usize = 200;
const LONGEST_SLUG: usize = 63;

/// Checks the form only. The message continues "the e-mail".
pub fn check_email(email: &str) -> Result<(), &'static str> {
    let is_fit = |part: &str| {
        !part.is_empty()
            && part.chars().all(|character| !character.is_whitespace() && !character.is_control())
    };
    match email.rsplit_once('@') {
        Some((name, host)) if email.len() <= LONGEST_EMAIL && is_fit(name) && is_fit(host) => Ok(()),
        Some(_) | None => Err("must be an address such as ada@example.com, of at most 320 bytes"),
    }
}

/// The message continues "the name".
pub fn check_display_name(name: &str) -> Result<(), &'static str> {
    let is_short = (1..=LONGEST_DISPLAY_NAME).contains(&name.chars().count());
    let is_fit = is_short && !name.chars().any(char::is_control) && name.trim() == name;
    if is_fit {
        Ok(())
    } else {
        Err("must be 1 to 200 characters, without control characters or blanks around")
    }
}

/// The message continues "the slug".
pub fn check_slug(slug: &str) -> Result<(), &'static str> {
    let is_short = (1..=LONGEST_SLUG).contains(&slug.len());
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if is_short && !slug.starts_with('-') && slug.bytes().all(is_fit) {
        Ok(())
    } else {
        Err("must be 1 to 63 lower-case letters, digits or hyphens, and begin with no hyphen")
    }
}

#[cfg(test)]
mod tests;
