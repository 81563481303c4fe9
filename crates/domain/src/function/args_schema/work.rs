//! The work of a schema: the parts that it evaluates for one value, and the number of values.
//!
//! The walk replaces each `$ref` by its target. Each part then meets a value at most once, so parts
//! times values bounds the work. Cyclic schemas have no bound and are rejected.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{DEEPEST, DIALECT, MOST_PARTS, Misfit};

/// Keywords whose value is a schema.
const ONE: [&str; 11] = [
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "additionalItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value has schemas under names.
const NAMED: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];
/// Schemas that apply only as the target of a `$ref`.
const KEPT: [&str; 2] = ["$defs", "definitions"];
/// Keywords that give a schema a second name or location.
const REFUSED: [&str; 6] =
    ["$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"];
/// A pattern is compiled and matched against a whole text.
const PATTERN: u64 = 25;
/// Each evaluation of the remaining items evaluates the other parts again.
const UNEVALUATED: u64 = 4;
/// Bytes of text that count as one value.
const TEXT: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Size {
    parts: u64,
    depth: usize,
}

/// Number of parts of a schema that apply to a value.
pub(super) fn parts(schema: &Value) -> Result<u64, Misfit> {
    let mut walk = Walk { root: schema, done: HashMap::new(), open: HashSet::new() };
    walk.head()?;
    let Size { parts, .. } = walk.size(schema, "", 0)?;
    if parts > MOST_PARTS {
        let message = format!(
            "has {parts} parts for one value when each $ref is followed; at most {MOST_PARTS} are allowed"
        );
        return Err(Misfit::new("", message));
    }
    Ok(parts)
}

/// A long text counts as several values.
pub(super) fn weight(value: &Value) -> u64 {
    let text = |text: &str| u64::try_from(1 + text.len() / TEXT).unwrap_or(u64::MAX);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(own) => text(own),
        Value::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Value::Object(fields) => {
            1 + fields.iter().map(|(name, value)| text(name) + weight(value)).sum::<u64>()
        }
    }
}

struct Walk<'a> {
    root: &'a Value,
    done: HashMap<*const Value, Size>,
    open: HashSet<*const Value>,
}

impl<'a> Walk<'a> {
    /// Only the root may set the dialect.
    fn head(&self) -> Result<(), Misfit> {
        match self.root.get("$schema") {
            None => Ok(()),
            Some(Value::String(dialect)) if dialect.trim_end_matches('#') == DIALECT => Ok(()),
            Some(_) => Err(Misfit::new("/$schema", format!("must be {DIALECT:?} or absent"))),
        }
    }

    fn size(&mut self, schema: &'a Value, at: &str, depth: usize) -> Result<Size, Misfit> {
        let Value::Object(fields) = schema else { return Ok(Size { parts: 1, depth: 1 }) };
        let key = std::ptr::from_ref(schema);
        let known = self.done.get(&key).copied();
        if depth + known.map_or(1, |size| size.depth) > DEEPEST {
            let message =
                format!("lies too deep: at most {DEEPEST} schemas in each other are taken, $ref followed");
            return Err(Misfit::new(at, message));
        }
        if let Some(size) = known {
            return Ok(size);
        }
        if !self.open.insert(key) {
            return Err(Misfit::new(at, "leads back to itself; a schema of arguments must have an end"));
        }
        let size = self.sum(fields, at, depth)?;
        self.open.remove(&key);
        self.done.insert(key, size);
        Ok(size)
    }

    fn sum(&mut self, fields: &'a Map<String, Value>, at: &str, depth: usize) -> Result<Size, Misfit> {
        let mut total = Size { parts: 1, depth: 1 };
        let mut looks_again = false;
        for (keyword, value) in fields {
            let (name, here) = (keyword.as_str(), format!("{at}/{}", escaped(keyword)));
            let children: Vec<(&'a Value, String)> = match value {
                _ if REFUSED.contains(&name) => {
                    return Err(Misfit::new(
                        here,
                        "is not taken; refer to a schema by its place: \"#/$defs/…\"",
                    ));
                }
                _ if !at.is_empty() && matches!(name, "$id" | "$schema") => {
                    return Err(Misfit::new(here, "is taken of the whole schema only"));
                }
                Value::String(target) if name == "$ref" => vec![(self.target(target, &here)?, here)],
                Value::Array(items) if LIST.contains(&name) => {
                    items.iter().enumerate().map(|(index, item)| (item, format!("{here}/{index}"))).collect()
                }
                // A list is the old form of `items` and `dependencies`; the library decides which
                // form applies.
                Value::Array(items) if name == "items" => {
                    items.iter().map(|item| (item, here.clone())).collect()
                }
                Value::Object(named) if NAMED.contains(&name) || KEPT.contains(&name) => {
                    named.iter().map(|(name, value)| (value, format!("{here}/{}", escaped(name)))).collect()
                }
                value if ONE.contains(&name) => vec![(value, here)],
                value => {
                    total.parts =
                        total.parts.saturating_add(if name == "pattern" { PATTERN } else { weight(value) });
                    continue;
                }
            };
            looks_again |= name.starts_with("unevaluated");
            for (child, place) in children {
                let size = self.size(child, &place, depth + 1)?;
                total.depth = total.depth.max(size.depth + 1);
                if !KEPT.contains(&name) {
                    let own = if name == "patternProperties" { PATTERN } else { 0 };
                    total.parts = total.parts.saturating_add(size.parts.saturating_add(own));
                }
            }
        }
        if looks_again {
            total.parts = total.parts.saturating_mul(UNEVALUATED);
        }
        Ok(total)
    }

    fn target(&self, target: &str, at: &str) -> Result<&'a Value, Misfit> {
        let inside =
            target.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        let Some(pointer) = inside else {
            let message =
                format!("{target:?} leads out of the schema, and nothing is fetched; write \"#/$defs/…\"");
            return Err(Misfit::new(at, message));
        };
        if pointer.contains('%') {
            return Err(Misfit::new(at, "must be written without %: name what it leads to in plain letters"));
        }
        let found = self.root.pointer(pointer);
        found.ok_or_else(|| Misfit::new(at, format!("{target:?} leads nowhere")))
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
