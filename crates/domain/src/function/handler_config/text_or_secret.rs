//! A text of a configuration: literal, or the name of a secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// In JSON either `"text"` or `{"secret": "name"}`. The secret belongs to the job's tenant or
/// project. Only the worker knows its value, while the attempt runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "must be a text, or an object with the one field \"secret\": the name of a secret"
)]
pub enum TextOrSecret {
    Text(String),
    Secret(SecretName),
}

/// An object, so that no literal text is taken for a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct SecretName {
    pub secret: String,
}

/// A derived struct would also accept a list.
impl TryFrom<BTreeMap<String, String>> for SecretName {
    type Error = &'static str;

    fn try_from(mut fields: BTreeMap<String, String>) -> Result<Self, Self::Error> {
        match (fields.remove("secret"), fields.is_empty()) {
            (Some(secret), true) => Ok(Self { secret }),
            _ => Err("a secret is named by an object with the one field \"secret\""),
        }
    }
}

impl TextOrSecret {
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Secret(_) => None,
        }
    }

    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Secret(name) => Some(&name.secret),
        }
    }
}

impl From<&str> for TextOrSecret {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_an_object_with_its_name_and_nothing_else() {
        let read = |json: &str| serde_json::from_str::<TextOrSecret>(json).ok();
        assert_eq!(read(r#""plain""#), Some("plain".into()));
        assert_eq!(read(r#"{"secret": "token"}"#).unwrap().secret(), Some("token"));
        for refused in [r#"{"secret": "a", "key": "b"}"#, r#"{"secret": 1}"#, "{}", "1", r#"["a"]"#] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }
}
