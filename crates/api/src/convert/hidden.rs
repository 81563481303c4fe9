//! Placeholders for values of a configuration that may be secrets. Pure.

use sched_model::domain::changes::differences;
use sched_wire as wire;
use serde_json::Value;

const HIDDEN: &str = "(hidden)";
const SIGNING: &str = "/sign/secrets";

/// Hides the literal values of variables, headers and signing secrets. Names stay, also those of
/// stored secrets.
pub(crate) fn hide_variables(mut handler_config: Value) -> Value {
    if let Some(env) = handler_config.get_mut("env").and_then(Value::as_object_mut) {
        env.values_mut().for_each(hide_text);
    }
    if let Some(headers) = handler_config.get_mut("headers").and_then(Value::as_object_mut) {
        headers.values_mut().for_each(hide_text);
    }
    if let Some(secrets) = handler_config.pointer_mut(SIGNING).and_then(Value::as_array_mut) {
        secrets.iter_mut().for_each(hide_text);
    }
    handler_config
}

fn hide_text(value: &mut Value) {
    if !value.is_object() {
        *value = HIDDEN.into();
    }
}

pub(crate) fn hidden_changes(before: &Value, after: &Value) -> Vec<wire::FieldChange> {
    let shown = differences(&hide_variables(before.clone()), &hide_variables(after.clone()));
    let is_shown = |pointer: &str| shown.iter().any(|one| one.pointer == pointer);
    let hidden = differences(before, after).into_iter().filter(|one| !is_shown(&one.pointer));
    let value = || Some(Value::from(HIDDEN));
    hidden.map(|one| wire::FieldChange { pointer: one.pointer, before: value(), after: value() }).collect()
}

pub(crate) fn hidden_values(handler_config: &Value) -> Vec<String> {
    let is_hidden = |value: &Value| value.as_str() == Some(HIDDEN);
    let mut found = Vec::new();
    for field in ["env", "headers"] {
        let values = handler_config.get(field).and_then(Value::as_object).into_iter().flatten();
        let hidden = values.filter(|(_, value)| is_hidden(value));
        found
            .extend(hidden.map(|(name, _)| format!("/{field}/{}", crate::error::field_error::escaped(name))));
    }
    let secrets = handler_config.pointer(SIGNING).and_then(Value::as_array).into_iter().flatten();
    let hidden = secrets.enumerate().filter(|(_, value)| is_hidden(value));
    found.extend(hidden.map(|(index, _)| format!("{SIGNING}/{index}")));
    found
}

/// Replaces placeholders in `sent` by the stored values. Returns the pointers of those without one.
///
/// Variables and headers are identified by their names. Signing secrets have no names. They are
/// restored by position, and only if all are sent back: a missing one cannot be identified.
pub(crate) fn put_back_hidden(sent: &mut Value, kept: Option<&Value>) -> Vec<String> {
    let listed =
        |config: &Value| config.pointer(SIGNING).and_then(Value::as_array).cloned().unwrap_or_default();
    let (secrets, before) = (listed(sent), kept.map(listed).unwrap_or_default());
    let texts: Vec<&Value> = before.iter().filter(|value| value.is_string()).collect();
    let is_hidden = |value: &&Value| value.as_str() == Some(HIDDEN);
    let are_all_there = secrets.iter().filter(is_hidden).count() == texts.len();
    let (mut unknown, mut in_order) = (Vec::new(), texts.into_iter());
    for pointer in hidden_values(sent) {
        let value = match pointer.starts_with(SIGNING) {
            true if are_all_there => in_order.next(),
            true => None,
            false => kept.and_then(|kept| kept.pointer(&pointer)).filter(|value| value.is_string()),
        };
        match (value, sent.pointer_mut(&pointer)) {
            (Some(value), Some(place)) => *place = value.clone(),
            _ => unknown.push(pointer),
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_values_are_restored_by_name_or_position() {
        let texts = |texts: &[&str]| json!({"sign": {"secrets": texts}});
        for (sent, kept, expected, unknown) in [
            (
                json!({"env": {"A": "(hidden)", "B": "x"}}),
                json!({"env": {"A": "a", "C": "c"}}),
                json!({"env": {"A": "a", "B": "x"}}),
                vec![],
            ),
            (
                json!({"headers": {"X/Y": "(hidden)"}}),
                json!({"headers": {"X/Y": "y"}}),
                json!({"headers": {"X/Y": "y"}}),
                vec![],
            ),
            (
                json!({"env": {"A": "(hidden)"}}),
                json!({"env": {"A": {"secret": "s"}}}),
                json!({"env": {"A": "(hidden)"}}),
                vec!["/env/A"],
            ),
            (
                texts(&["new", "(hidden)"]),
                texts(&["1", "2"]),
                texts(&["new", "(hidden)"]),
                vec!["/sign/secrets/1"],
            ),
            (texts(&["new", "(hidden)"]), texts(&["1"]), texts(&["new", "1"]), vec![]),
            (texts(&["new", "(hidden)", "(hidden)"]), texts(&["1", "2"]), texts(&["new", "1", "2"]), vec![]),
            (texts(&["(hidden)"]), texts(&["1", "2"]), texts(&["(hidden)"]), vec!["/sign/secrets/0"]),
        ] {
            let mut put = sent.clone();
            assert_eq!(
                (put_back_hidden(&mut put, Some(&kept)), &put),
                (unknown.into_iter().map(str::to_owned).collect(), &expected),
                "{sent}"
            );
        }
        assert_eq!(put_back_hidden(&mut json!({"env": {"A": "(hidden)"}}), None), ["/env/A"]);
    }

    #[test]
    fn literal_values_are_hidden_and_secret_names_stay() {
        let config = json!({
            "env": {"A": "1"},
            "headers": {"X-A": "1", "Authorization": {"secret": "token"}},
            "sign": {"secrets": ["whsec_x", {"secret": "old"}]},
            "url": "https://example.com/",
        });
        let expected = json!({
            "env": {"A": HIDDEN},
            "headers": {"X-A": HIDDEN, "Authorization": {"secret": "token"}},
            "sign": {"secrets": [HIDDEN, {"secret": "old"}]},
            "url": "https://example.com/",
        });
        assert_eq!(hide_variables(config), expected);
    }
}
