//! Converts secrets. Pure.
//!
//! The generic reader quotes unexpected input in its errors, which could be the value. So this
//! module reads values by hand.

use sched_model::definitions::secrets::SecretRecord;
use sched_model::domain::secret::SecretValue;
use sched_wire as wire;
use secrecy::SecretString;
use serde_json::Value;

use crate::error::field_error::FieldError;

/// Errors contain nothing of the body except names of unknown fields.
pub(crate) fn read_value(body: Value) -> Result<SecretValue, FieldError> {
    let Value::Object(mut fields) = body else {
        return Err(FieldError::invalid("", "must be an object with the field value"));
    };
    let value = fields.remove("value");
    if let Some(unknown) = fields.keys().next() {
        let pointer = format!("/{}", crate::error::field_error::escaped(unknown));
        return Err(FieldError::invalid(pointer, "is unknown; the only field is value"));
    }
    let value = match value {
        Some(Value::String(text)) => SecretString::from(text),
        Some(_) => return Err(FieldError::invalid("/value", "must be a string")),
        None => return Err(FieldError::invalid("", "must have the field value")),
    };
    SecretValue::new(value).map_err(|what| FieldError::invalid("/value", what))
}

pub(crate) fn show(secret: SecretRecord, project: Option<String>) -> wire::Secret {
    wire::Secret {
        id: secret.id,
        name: secret.name,
        project,
        key: secret.key_id,
        version: secret.version,
        created_at: secret.created_at,
        created_by: secret.created_src,
        updated_at: secret.updated_at,
        updated_by: secret.updated_src,
    }
}

#[cfg(test)]
mod tests {
    use sched_model::domain::secret::MAX_SECRET_BYTES;
    use secrecy::ExposeSecret as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_value_is_not_changed() {
        let value = read_value(json!({"value": " hunter2\n"})).unwrap();
        assert_eq!(value.into_inner().expose_secret(), " hunter2\n");
    }

    #[test]
    fn secret_errors_never_quote_the_value() {
        let long = "canary".repeat(MAX_SECRET_BYTES);
        for (body, pointer) in [
            (json!("canary"), ""),
            (json!(["canary"]), ""),
            (json!({}), ""),
            (json!({"value": 5_154_217}), "/value"),
            (json!({"value": ["canary"]}), "/value"),
            (json!({"value": ""}), "/value"),
            (json!({"value": long}), "/value"),
            (json!({"value": "canary", "project": "canary"}), "/project"),
        ] {
            let mistake = read_value(body).unwrap_err();
            assert_eq!(mistake.pointer, pointer, "{mistake:?}");
            assert!(!format!("{mistake:?}").contains("canary"), "{mistake:?}");
            assert!(!format!("{mistake:?}").contains("5154217"), "{mistake:?}");
        }
    }
}
