//! Rewrites schemas into the forms that generators of clients read, with the same meaning. Pure.
//!
//! `openapi-python-client` accepts no boolean as a schema, and refuses every word of a `oneOf` of
//! constants but the first. Generators of other languages create one type for each constant.

use serde_json::{Map, Value, json};

/// The documentation of each word of `enum`, in its order: a name that `openapi-typescript` reads.
const DESCRIPTIONS: &str = "x-enum-descriptions";

/// Rewrites every schema of a document or a part of it.
pub(super) fn rewrite(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match (name.as_str(), inner) {
                    ("schema", inner) => schema(inner),
                    ("schemas", Value::Object(named)) => named.values_mut().for_each(schema),
                    (_, inner) => rewrite(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn schema(value: &mut Value) {
    if *value == Value::Bool(true) {
        *value = json!({});
    }
    let Value::Object(fields) = value else { return };
    for (keyword, inner) in fields.iter_mut() {
        match (keyword.as_str(), inner) {
            ("properties" | "patternProperties" | "$defs", Value::Object(named)) => {
                named.values_mut().for_each(schema);
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(items)) => {
                items.iter_mut().for_each(schema);
            }
            ("items" | "contains" | "not" | "propertyNames" | "contentSchema", inner) => schema(inner),
            // Here a boolean is usual.
            ("additionalProperties" | "unevaluatedProperties", inner @ Value::Object(_)) => schema(inner),
            _ => {}
        }
    }
    if let Some(words) = fields.get("oneOf").and_then(Value::as_array).and_then(|all| words(all)) {
        fields.remove("oneOf");
        enumerate(fields, words);
    }
}

/// A word and its documentation.
type Word = (Value, String);

/// `None` unless every alternative is a word, or a list of them.
fn words(alternatives: &[Value]) -> Option<Vec<Word>> {
    let mut found = Vec::new();
    for alternative in alternatives {
        let fields = alternative.as_object()?;
        let is_plain =
            |name: &String| matches!(name.as_str(), "type" | "const" | "enum" | "description" | DESCRIPTIONS);
        if !fields.keys().all(is_plain) || fields.get("type").is_some_and(|kind| kind != "string") {
            return None;
        }
        let text = fields.get("description").and_then(Value::as_str).unwrap_or_default();
        match (fields.get("const"), fields.get("enum").and_then(Value::as_array)) {
            (Some(word @ Value::String(_)), None) => found.push((word.clone(), text.to_owned())),
            (None, Some(several)) if several.iter().all(Value::is_string) => {
                found.extend(several.iter().map(|word| (word.clone(), text.to_owned())));
            }
            _ => return None,
        }
    }
    Some(found)
}

fn enumerate(fields: &mut Map<String, Value>, words: Vec<Word>) {
    let (words, texts): (Vec<Value>, Vec<String>) = words.into_iter().unzip();
    fields.insert("type".to_owned(), "string".into());
    fields.insert("enum".to_owned(), words.into());
    if texts.iter().any(|text| !text.is_empty()) {
        fields.insert(DESCRIPTIONS.to_owned(), texts.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_become_an_enumeration() {
        let mut part = json!({"components": {"schemas": {"Status": {
            "description": "State.",
            "oneOf": [
                {"type": "string", "enum": ["a", "b"]},
                {"type": "string", "const": "c", "description": "The third."},
            ],
        }}}});
        rewrite(&mut part);
        let expected = json!({
            "description": "State.", "type": "string", "enum": ["a", "b", "c"],
            "x-enum-descriptions": ["", "", "The third."],
        });
        assert_eq!(part["components"]["schemas"]["Status"], expected);
    }

    #[test]
    fn alternatives_with_fields_stay() {
        let tagged = json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"type": "string", "const": "a"}}},
            {"type": "string", "const": "b"},
        ]});
        let mut part = json!({"schema": tagged});
        rewrite(&mut part);
        assert_eq!(part["schema"], tagged);
    }

    #[test]
    fn boolean_schemas_become_objects() {
        let mut part = json!({"schema": {
            "type": "object",
            "properties": {"any": true, "schema": {"type": "array", "items": true}},
            "additionalProperties": true,
            "anyOf": [true, {"additionalProperties": {"items": true}}],
        }});
        rewrite(&mut part);
        let expected = json!({
            "type": "object",
            "properties": {"any": {}, "schema": {"type": "array", "items": {}}},
            "additionalProperties": true,
            "anyOf": [{}, {"additionalProperties": {"items": {}}}],
        });
        assert_eq!(part["schema"], expected);
    }
}
