//! Names of schemas that differ between requests and answers. Pure.
//!
//! A request may omit a field with a default; an answer always has it. Such a type, and every type
//! that refers to it, has two schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub(super) const SCHEMAS: &str = "#/components/schemas/";
const ANSWERED: &str = "Answer";

/// The schemas, by name.
pub(super) type Schemas = Map<String, Value>;

pub(super) fn joined(taken: Schemas, answered: Schemas) -> (Schemas, BTreeSet<String>) {
    let renamed = renamed(&taken, &answered);
    let mut all = taken;
    for (name, mut schema) in answered {
        rename(&mut schema, &renamed);
        let name = if renamed.contains(&name) { format!("{name}{ANSWERED}") } else { name };
        all.insert(name, schema);
    }
    (all, renamed)
}

fn renamed(taken: &Schemas, answered: &Schemas) -> BTreeSet<String> {
    let differs = |(name, schema): (&String, &Value)| {
        taken.get(name).is_some_and(|other| other != schema).then(|| name.clone())
    };
    let mut names: BTreeSet<String> = answered.iter().filter_map(differs).collect();
    loop {
        // A schema that refers to a differing one differs too, if it is in both.
        let refers = |schema: &Value| references(schema).iter().any(|name| names.contains(*name));
        let more: Vec<String> = answered
            .iter()
            .filter(|(name, schema)| !names.contains(*name) && taken.contains_key(*name) && refers(schema))
            .map(|(name, _)| name.clone())
            .collect();
        if more.is_empty() {
            return names;
        }
        names.extend(more);
    }
}

fn references(schema: &Value) -> Vec<&str> {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match value.as_str().and_then(|text| text.strip_prefix(SCHEMAS)) {
                Some(name) if key == "$ref" => vec![name],
                _ => references(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

pub(super) fn rename(schema: &mut Value, renamed: &BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "$ref" => {
                        if text.strip_prefix(SCHEMAS).is_some_and(|name| renamed.contains(name)) {
                            text.push_str(ANSWERED);
                        }
                    }
                    value => rename(value, renamed),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, renamed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schemas(value: Value) -> Schemas {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn differing_schemas_and_their_users_get_two_names() {
        let reference = |name: &str| json!({"$ref": format!("{SCHEMAS}{name}")});
        let outer = json!({"properties": {"inner": [reference("Inner")], "plain": reference("Plain")}});
        let taken = schemas(json!({"Outer": outer, "Inner": {"required": []}, "Plain": {}}));
        let answered = schemas(
            json!({"Outer": outer, "Inner": {"required": ["a"]}, "Plain": {}, "Only": reference("Outer")}),
        );
        let (all, renamed) = joined(taken, answered);
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["Inner", "InnerAnswer", "Only", "Outer", "OuterAnswer", "Plain"]);
        assert_eq!(all["Only"], reference("OuterAnswer"));
        assert_eq!(all["OuterAnswer"]["properties"]["inner"][0], reference("InnerAnswer"));
        assert_eq!(all["OuterAnswer"]["properties"]["plain"], reference("Plain"));
        assert_eq!(all["Outer"]["properties"]["inner"][0], reference("Inner"));
        assert_eq!(renamed.len(), 2);
    }
}
