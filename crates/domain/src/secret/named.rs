//! Finds the names of secrets in the configuration of a function.
//!
//! A name is an object with the one field `secret`, or an entry of the top-level list `secrets` of
//! a native handler. Users name variables and headers freely, also `secret`, so the objects that
//! contain them are not names.

use serde_json::Value;

/// Fields at the top whose keys are the user's own words.
const MAPS: [&str; 2] = ["env", "headers"];
const LIST: &str = "secrets";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// JSON pointer below `handler_config`.
    pub pointer: String,
    pub name: String,
}

#[must_use]
pub fn named_secrets(handler_config: &Value) -> Vec<NamedSecret> {
    let mut found = Vec::new();
    let Value::Object(fields) = handler_config else { return found };
    for (key, value) in fields {
        let pointer = below("", key);
        match value {
            Value::Object(entries) if MAPS.contains(&key.as_str()) => {
                for (key, value) in entries {
                    collect(value, below(&pointer, key), &mut found);
                }
            }
            Value::Array(names) if key == LIST => {
                for (index, name) in names.iter().enumerate() {
                    let pointer = format!("{pointer}/{index}");
                    match name {
                        Value::String(name) => found.push(NamedSecret { pointer, name: name.clone() }),
                        other => collect(other, pointer, &mut found),
                    }
                }
            }
            value => collect(value, pointer, &mut found),
        }
    }
    found
}

fn collect(value: &Value, pointer: String, found: &mut Vec<NamedSecret>) {
    match value {
        Value::Object(fields) => match fields.get("secret") {
            Some(Value::String(name)) if fields.len() == 1 => {
                found.push(NamedSecret { pointer, name: name.clone() });
            }
            _ => {
                for (key, value) in fields {
                    collect(value, below(&pointer, key), found);
                }
            }
        },
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, format!("{pointer}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
