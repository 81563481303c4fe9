//! Cursors of lists that can be sorted and filtered. Pure.
//!
//! A cursor is opaque to clients and rejected for other filters or another order. It contains only
//! data that the last item of the page showed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sched_model::domain::idempotency::digest;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::ApiError;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SortedCursor {
    /// Mark of the list.
    l: String,
    /// Sort key of the last item.
    k: Option<String>,
    i: Uuid,
}

/// `list` identifies the list and its filters.
pub(crate) fn seal(list: &impl Serialize, key: Option<String>, id: Uuid) -> String {
    let held = SortedCursor { l: mark(list), k: key, i: id };
    // Strings only: this cannot fail.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&held).unwrap_or_default())
}

/// The sort key and the id of the item after which the page begins.
pub(crate) fn open(list: &impl Serialize, cursor: &str) -> Result<(Option<String>, Uuid), ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let held: Option<SortedCursor> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let held = held.ok_or_else(broken)?;
    if held.l != mark(list) {
        let message = "belongs to a list with other filters or another order; begin without a cursor";
        return Err(ApiError::parameter("cursor", message));
    }
    Ok((held.k, held.i))
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyCursor {
    /// Mark of the list.
    l: String,
    /// Key of the last item.
    p: String,
}

pub(crate) fn seal_key(mark: &str, key: String) -> String {
    let place = KeyCursor { l: mark.to_owned(), p: key };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&place).unwrap_or_default())
}

pub(crate) fn open_key(mark: &str, cursor: &str) -> Result<String, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let place: Option<KeyCursor> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let place = place.filter(|place| !place.p.contains('\0')).ok_or_else(broken)?;
    if place.l != mark {
        let message =
            "belongs to another list, or to one with other filters or another order; begin without a cursor";
        return Err(ApiError::parameter("cursor", message));
    }
    Ok(place.p)
}

pub(crate) fn broken() -> ApiError {
    ApiError::parameter("cursor", "must be the next_cursor of the previous page")
}

/// The start of the hash of a serialized value.
pub(crate) fn mark(thing: &impl Serialize) -> String {
    let text = serde_json::to_string(thing).unwrap_or_default();
    digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_cursor_is_valid_for_its_list_only() {
        let cursor = seal_key("a", "ä/b".to_owned());
        assert_eq!(open_key("a", &cursor).unwrap(), "ä/b");
        let nul = seal_key("a", "\0".to_owned());
        for (mark, cursor) in [("b", cursor.as_str()), ("a", "ä/b"), ("a", ""), ("a", "e30"), ("a", &nul)] {
            assert!(matches!(open_key(mark, cursor), Err(ApiError::Parameters(_))), "{mark} {cursor}");
        }
    }

    #[test]
    fn cursor_is_valid_for_its_list_only() {
        let cursor = seal(&("name", 1), Some("ä \" /".into()), Uuid::from_u128(7));
        assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
        assert_eq!(open(&("name", 1), &cursor).unwrap(), (Some("ä \" /".into()), Uuid::from_u128(7)));
        for (list, cursor) in
            [(("name", 2), cursor.as_str()), (("name", 1), "x"), (("name", 1), ""), (("name", 1), "e30")]
        {
            let refused = open(&list, cursor).unwrap_err();
            assert!(matches!(refused, ApiError::Parameters(_)), "{refused:?}");
        }
    }
}
