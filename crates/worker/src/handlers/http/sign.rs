//! Signatures of Standard Webhooks: HMAC-SHA256 over id, timestamp and body. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::digest::InvalidLength;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The value of `webhook-signature`: one signature per key, in their order.
pub(super) fn signatures(
    keys: &[Vec<u8>],
    id: &str,
    timestamp: i64,
    body: &[u8],
) -> Result<String, InvalidLength> {
    let signature = |key: &Vec<u8>| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key)?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    };
    Ok(keys.iter().map(signature).collect::<Result<Vec<_>, _>>()?.join(" "))
}

#[cfg(test)]
mod tests {
    use sched_model::domain::handler_config::signing_key;

    use super::*;

    /// OpenSSL computed the expected values: `printf '%s' 'ID.TIMESTAMP.BODY' | openssl dgst
    /// -sha256 -mac HMAC -macopt hexkey:KEY -binary | base64`.
    #[test]
    fn signatures_match_openssl() {
        let new = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let old = signing_key("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        let id = "0190f3b0-0000-7000-8000-00000000000d";
        let body = r#"{"test": 2432232314}"#.as_bytes();
        let one = signatures(std::slice::from_ref(&new), id, 1_795_234_567, body).unwrap();
        assert_eq!(one, "v1,ECE5sGGVYYtinJBwn0bPK5yuZiRivWUylLtWIzAlh08=");
        let both = signatures(&[new, old.clone()], id, 1_795_234_567, body).unwrap();
        assert_eq!(
            both,
            "v1,ECE5sGGVYYtinJBwn0bPK5yuZiRivWUylLtWIzAlh08= v1,eISeyWvC7b4LmFhasaILNDbsnfFvorpdJ4WYy6ubrH8="
        );
        assert_eq!(
            signatures(&[old], "id", 0, b"").unwrap(),
            "v1,u+jM393lOM6OGACLZrm7FfUsENahWipUTYgiDCB1LxQ="
        );
    }
}
