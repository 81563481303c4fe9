//! Keys of a key file.

use sched_model::domain::secret::{KEY_BYTES, key_line};
use secrecy::SecretString;

/// The id has the prefix.
pub(crate) fn new_key(prefix: &str) -> SecretString {
    let bytes: [u8; KEY_BYTES] = rand::random();
    key_line(&format!("{prefix}-{:08x}", rand::random::<u32>()), &bytes)
}
