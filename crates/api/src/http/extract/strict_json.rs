//! Strict JSON: rejects duplicate keys and NUL characters. Pure.
//!
//! Parsers differ in which of two equal keys they keep; PostgreSQL cannot store NUL. The parser
//! limits the depth (128).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::ApiError;
use crate::error::field_error::{FieldError, escaped};

pub(super) fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    let Strict(value) =
        serde_json::from_slice(bytes).map_err(|error| ApiError::Malformed(error.to_string()))?;
    let mut found = Vec::new();
    find_nul(&value, &mut String::new(), &mut found);
    if found.is_empty() { Ok(value) } else { Err(ApiError::Refused(found)) }
}

fn find_nul(value: &Value, at: &mut String, found: &mut Vec<FieldError>) {
    const MESSAGE: &str = "contains a NUL character, which cannot be stored";
    let length = at.len();
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) if text.contains('\0') => found.push(FieldError::invalid(at.as_str(), MESSAGE)),
        Value::String(_) => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("/{index}"));
                find_nul(item, at, found);
                at.truncate(length);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                if key.contains('\0') {
                    found.push(FieldError::invalid(at.as_str(), format!("the key {key:?} {MESSAGE}")));
                    continue;
                }
                at.push('/');
                at.push_str(&escaped(key));
                find_nul(item, at, found);
                at.truncate(length);
            }
        }
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} occurs twice in one object")));
            }
            let Strict(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_documents_are_read_as_they_are() {
        for text in [r#"{"a":[1,-2,2.5,"x",null,true,{"b":{}}]}"#, "[]", "3", r#""é""#] {
            assert_eq!(parse(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"b":2,"a":3}]}"#] {
            let ApiError::Malformed(message) = parse(text.as_bytes()).unwrap_err() else { panic!("{text}") };
            assert!(message.contains("\"a\" occurs twice") && message.contains("line 1"), "{message}");
        }
    }

    #[test]
    fn nul_is_refused_wherever_it_hides() {
        let text = r#"{"a":{"b/c":["x","y\u0000"]},"d\u0000":1,"e":"\u0000"}"#;
        let ApiError::Refused(mistakes) = parse(text.as_bytes()).unwrap_err() else { panic!("taken") };
        let pointers: Vec<&str> = mistakes.iter().map(|mistake| mistake.pointer.as_str()).collect();
        assert_eq!(pointers, ["/a/b~1c/1", "", "/e"]);
    }

    #[test]
    fn depth_and_broken_text_are_refused() {
        let deep = "[".repeat(200);
        for text in [deep.as_bytes(), b"{", b"", b"{} {}", b"\"\xff\"", br#""\ud800""#, b"1e999"] {
            assert!(matches!(parse(text), Err(ApiError::Malformed(_))), "{}", String::from_utf8_lossy(text));
        }
    }
}
