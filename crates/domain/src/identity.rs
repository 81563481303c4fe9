//! Who acts, and what they may do: roles, permissions, the form of API keys and of sessions, passwords.
//!
//! Pure: random bytes, the key ring and stored hashes are arguments. Nothing here knows a request or a row. A process that dies
//! here leaves nothing behind.
//!
//! What an identity may do is one set of [`Permission`]s, computed in one place ([`Standing::permissions`]) from the role in the
//! tenant, the flag of a system-wide operator, and the scopes of a key, which only ever take away. Every route asks for one
//! permission; a permission that nobody has computed is not had.

mod base32;
pub mod jwt;
mod key;
mod password;
mod permission;
mod session;

pub use key::{ApiKey, ID_BYTES, KeyFormError, KeyHash, SECRET_BYTES, UnknownRingKey, check_environment};
pub use password::{
    InvalidHash, LONGEST_PASSWORD, NOBODYS_HASH, SALT_BYTES, SHORTEST_PASSWORD, check_password,
    hash_password, verify_password,
};
pub use permission::{Permission, Permissions, Role, Standing, scopes_of};
pub use session::{InvalidToken, SessionToken};

/// What a token is known by to who must not keep it.
#[must_use]
pub fn fingerprint(token: &str) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(token.as_bytes()).into()
}

/// Longest e-mail address; its column says the same.
pub const LONGEST_EMAIL: usize = 320;
/// Longest name of a key, a user or a tenant, in characters; their columns say the same.
pub const LONGEST_DISPLAY_NAME: usize = 200;
/// Longest slug of a tenant.
const LONGEST_SLUG: usize = 63;

/// Tells whether this may be the address of a user. Whether mail arrives there is not known.
///
/// # Errors
/// What is allowed, reading on from "the e-mail".
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

/// Tells whether this may be shown to people as the name of something.
///
/// # Errors
/// What is allowed, reading on from "the name".
pub fn check_display_name(name: &str) -> Result<(), &'static str> {
    let is_short = (1..=LONGEST_DISPLAY_NAME).contains(&name.chars().count());
    let is_fit = is_short && !name.chars().any(char::is_control) && name.trim() == name;
    if is_fit {
        Ok(())
    } else {
        Err("must be 1 to 200 characters, without control characters or blanks around")
    }
}

/// Tells whether this may be the slug of a tenant.
///
/// # Errors
/// What is allowed, reading on from "the slug".
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
