//! Placeholders for values of a configuration that may be secrets. Pure.

use std::collections::BTreeSet;

use sched_model::domain::changes::differences;
use sched_model::domain::handler_config::may_be_secret;
use sched_model::domain::identity::{Permission, Permissions};
use sched_model::domain::secret::LONGEST_SECRET_NAME;
use sched_wire as wire;
use serde_json::{Value, json};

const HIDDEN: &str = "(hidden)";
const SIGNING: &str = "/sign/secrets";

/// The literal values that a caller sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The caller may change definitions, and sees each value that is not a secret.
    Editor,
    Reader,
}

impl Sight {
    pub(crate) fn of(permissions: Permissions) -> Self {
        if permissions.has(Permission::JobsWrite) { Self::Editor } else { Self::Reader }
    }

    fn shows(self, name: &str, value: &Value) -> bool {
        self == Self::Editor && value.as_str().is_some_and(|text| !may_be_secret(name, text))
    }
}

/// Hides the literal values of variables, headers and signing secrets. Names stay, also those of
/// stored secrets.
pub(crate) fn hide_variables(mut handler_config: Value, sight: Sight) -> Value {
    for field in ["env", "headers"] {
        let values = handler_config.get_mut(field).and_then(Value::as_object_mut);
        for (name, value) in values.into_iter().flatten() {
            if !sight.shows(name, value) {
                hide_text(value);
            }
        }
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

/// The changes that [`Sight::Editor`] does not show, without the values.
pub(crate) fn hidden_changes(before: &Value, after: &Value) -> Vec<wire::FieldChange> {
    let hide = |config: &Value| hide_variables(config.clone(), Sight::Editor);
    let shown = differences(&hide(before), &hide(after));
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

/// Whether a placeholder stands for one of several stored values, and none can be chosen.
pub(crate) fn is_ambiguous(pointer: &str, kept: Option<&Value>) -> bool {
    let stored = kept.and_then(|kept| kept.pointer(SIGNING)).and_then(Value::as_array);
    pointer.starts_with(SIGNING) && stored.is_some_and(|stored| stored.iter().any(Value::is_string))
}

/// Replaces each placeholder at `pointers` by the name of a secret: the stored one, or a new name
/// from the function and the pointer. A file has no value, so a user has to set the secret.
pub(crate) fn name_secrets(sent: &mut Value, kept: Option<&Value>, function: &str, pointers: &[String]) {
    let mut taken = BTreeSet::new();
    for pointer in pointers {
        let stored = kept.and_then(|kept| kept.pointer(pointer)).filter(|value| value.is_object());
        let Some(place) = sent.pointer_mut(pointer) else { continue };
        *place = stored.cloned().unwrap_or_else(|| {
            let mut names = (1..).map(|number| secret_name(function, pointer, number));
            let name = names.find(|name| taken.insert(name.clone())).unwrap_or_default();
            json!({ "secret": name })
        });
    }
}

/// `TOKEN` of the function `mail` is `mail.token`.
fn secret_name(function: &str, pointer: &str, number: usize) -> String {
    let field = pointer.trim_start_matches("/env/").trim_start_matches("/headers/").trim_start_matches('/');
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' => c,
        _ => '-',
    };
    let field: String = field.chars().map(plain).take(LONGEST_SECRET_NAME / 2).collect();
    let tail = if number == 1 { format!(".{field}") } else { format!(".{field}-{number}") };
    let head: String = function.chars().take(LONGEST_SECRET_NAME - tail.len()).collect();
    head + &tail
}

#[cfg(test)]
mod tests {
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
    fn placeholder_without_value_becomes_a_secret_name() {
        let long = "f".repeat(LONGEST_SECRET_NAME);
        let mut sent = json!({
            "env": {"A": "(hidden)", "My_TOKEN": "(hidden)", "my_token": "(hidden)"},
            "headers": {"X-Key": "(hidden)"},
            "sign": {"secrets": ["(hidden)"]},
        });
        let kept = json!({"env": {"A": {"secret": "a"}}});
        let pointers = put_back_hidden(&mut sent, Some(&kept));
        assert_eq!(pointers.len(), 5);
        name_secrets(&mut sent, Some(&kept), "mail", &pointers);
        let expected = json!({
            "env": {"A": {"secret": "a"}, "My_TOKEN": {"secret": "mail.my_token"}, "my_token": {"secret": "mail.my_token-2"}},
            "headers": {"X-Key": {"secret": "mail.x-key"}},
            "sign": {"secrets": [{"secret": "mail.sign-secrets-0"}]},
        });
        assert_eq!(sent, expected);
        assert_eq!(secret_name(&long, "/env/A", 2).len(), LONGEST_SECRET_NAME);
    }

    #[test]
    fn literal_values_are_hidden_and_secret_names_stay() {
        let config = json!({
            "env": {"A": "1", "MY_TOKEN": "2"},
            "headers": {"X-A": "1", "Authorization": {"secret": "token"}},
            "sign": {"secrets": ["whsec_x", {"secret": "old"}]},
            "url": "https://example.com/",
        });
        let expected = |plain: &str| {
            json!({
                "env": {"A": plain, "MY_TOKEN": HIDDEN},
                "headers": {"X-A": plain, "Authorization": {"secret": "token"}},
                "sign": {"secrets": [HIDDEN, {"secret": "old"}]},
                "url": "https://example.com/",
            })
        };
        assert_eq!(hide_variables(config.clone(), Sight::Reader), expected(HIDDEN));
        assert_eq!(hide_variables(config, Sight::Editor), expected("1"));
    }
}
