//! The differences between two versions of an object, field by field.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// A JSON pointer.
    pub pointer: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Compares objects field by field, in the order of their fields; lists and other values as a
/// whole.
#[must_use]
pub fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

fn compare(at: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                compare(&pointer, old.get(key), new.get(key), found);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            found.push(Difference { pointer: at.to_owned(), before: before.cloned(), after: after.cloned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_have_pointers() {
        let before = json!({"a": 1, "same": [1], "config": {"x/y": 1, "gone": null}, "list": [1, 2]});
        let after = json!({"a": 2, "same": [1], "config": {"x/y": 2, "new": {}}, "list": [1]});
        let found = differences(&before, &after);
        let shown: Vec<_> =
            found.iter().map(|one| (one.pointer.as_str(), one.before.clone(), one.after.clone())).collect();
        let expected = [
            ("/a", Some(json!(1)), Some(json!(2))),
            ("/config/gone", Some(Value::Null), None),
            ("/config/x~1y", Some(json!(1)), Some(json!(2))),
            ("/config/new", None, Some(json!({}))),
            ("/list", Some(json!([1, 2])), Some(json!([1]))),
        ];
        assert_eq!(shown, expected);
        assert_eq!(differences(&before, &before), []);
    }
}
