//! The generated part of `docs/reference/fields.md` matches the types. To update it:
//! `UPDATE_DOCS=1 cargo test -p sched-wire --test fields`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test with its position"
)]
#![expect(clippy::disallowed_methods, reason = "a variable selects the update of the page")]

use std::path::Path;

use sched_wire::Manifest;
use serde_json::Value;

/// The types of a jobs file, each with its heading and an introduction.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("JobSpec", "Jobs", "Items of `jobs`. The schedule of each kind: [schedules](../guide/schedules.md)."),
    (
        "AfterSpec",
        "What a job runs after",
        "Items of `after` of a job; see [dependencies](../guide/dependencies.md).",
    ),
    (
        "RetryPolicySpec",
        "Retry policies",
        "`retry_policy` of a job or a task function; see [jobs](../guide/jobs.md#retries).",
    ),
    (
        "FunctionSpec",
        "Task functions",
        "Items of `task_functions`. `handler_config`: [process](../guide/functions-process.md), [http](../guide/functions-http.md), [native](../guide/functions-native.md).",
    ),
    (
        "QueueDefinition",
        "Queues",
        "Items of `queues`; see [queues and limits](../guide/queues-and-limits.md).",
    ),
    ("Rate", "Rate of a queue", "`rate` of a queue."),
    (
        "CalendarSpec",
        "Calendars",
        "Items of `calendars`; the forms of days and times: [schedules](../guide/schedules.md).",
    ),
    ("ProjectDefinition", "Projects", "Items of `projects`."),
    ("SecretReference", "Secrets", "Items of `secrets`; see [secrets](../guide/secrets.md)."),
    ("TemplateSpec", "Templates", "Items of `templates`; see [templates](../guide/templates.md)."),
    ("ParameterSpec", "Parameters of a template", "Values of `parameters` of a template."),
    (
        "NotificationChannelSpec",
        "Notification channels",
        "Items of `notification_channels`; see [notifications](../guide/notifications.md).",
    ),
    ("NotificationRuleSpec", "Notification rules", "Items of `notification_rules`."),
];

const BEGIN: &str = "<!-- BEGIN GENERATED: UPDATE_DOCS=1 scripts/test -E 'test(reference)' -->\n";
const END: &str = "\n<!-- END GENERATED -->\n";

fn document() -> String {
    let schema = Manifest::schema();
    let definitions = &schema["$defs"];
    let mut text = String::new();
    for (name, title, about) in SECTIONS {
        let definition = &definitions[name];
        let required = definition["required"].as_array().cloned().unwrap_or_default();
        text.push_str(&format!(
            "\n## {title}\n\n{about}\n\n| field | value | when absent | meaning |\n|---|---|---|---|\n"
        ));
        for (field, property) in definition["properties"].as_object().unwrap() {
            let absent = match &property["default"] {
                _ if required.contains(&field.as_str().into()) => "required".to_owned(),
                Value::Null => String::new(),
                Value::Array(items) if items.is_empty() => String::new(),
                Value::Object(fields) if fields.is_empty() => String::new(),
                Value::String(word) => format!("`{word}`"),
                default => format!("`{default}`"),
            };
            let meaning = property["description"].as_str().unwrap().replace('\n', " ").replace('|', "\\|");
            let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
            text.push_str(&format!(
                "| `{field}` | {} | {absent} | {meaning} |\n",
                value(property, definitions)
            ));
        }
    }
    text
}

/// The accepted values of a field.
fn value(property: &Value, definitions: &Value) -> String {
    if let Some(name) = property["$ref"].as_str() {
        return named(name.trim_start_matches("#/$defs/"), definitions);
    }
    if let Some(either) = property["anyOf"].as_array() {
        let some: Vec<String> =
            either.iter().filter(|one| one["type"] != "null").map(|one| value(one, definitions)).collect();
        return some.join(" or ");
    }
    let kind = match &property["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap(),
        _ => "any",
    };
    match kind {
        "string" if property["format"] == "date-time" => "instant (RFC 3339)".to_owned(),
        "string" => "text".to_owned(),
        "integer" => match (&property["minimum"], &property["maximum"]) {
            (Value::Number(least), Value::Number(most)) => format!("whole number, {least} to {most}"),
            (Value::Number(least), _) => format!("whole number from {least}"),
            _ => "whole number".to_owned(),
        },
        "boolean" => "true or false".to_owned(),
        "array" => format!("list of: {}", value(&property["items"], definitions)),
        "object" => match &property["additionalProperties"] {
            Value::Object(_) => {
                format!("names, each with: {}", value(&property["additionalProperties"], definitions))
            }
            _ => "object".to_owned(),
        },
        _ => "any".to_owned(),
    }
}

/// The accepted words of a type, or a link to its section.
fn named(name: &str, definitions: &Value) -> String {
    if let Some((_, title, _)) = SECTIONS.iter().find(|(section, ..)| *section == name) {
        let anchor = title.to_lowercase().replace(' ', "-");
        return format!("[{}](#{anchor})", title.to_lowercase());
    }
    let definition = &definitions[name];
    let words = definition["enum"].as_array().cloned().unwrap_or_else(|| {
        definition["oneOf"]
            .as_array()
            .unwrap_or_else(|| panic!("{name}: {definition}"))
            .iter()
            .map(|one| one["const"].clone())
            .collect()
    });
    words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect::<Vec<_>>().join(", ")
}

#[test]
fn reference_fields_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/fields.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let expected = format!("{head}{BEGIN}{}{END}{tail}", document());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/reference/fields.md does not match the types; update it with UPDATE_DOCS=1"
    );
}

#[test]
fn every_list_of_a_jobs_file_has_a_section() {
    let schema = Manifest::schema();
    for (list, property) in schema["properties"].as_object().unwrap() {
        let item = property["items"]["$ref"].as_str().unwrap().trim_start_matches("#/$defs/").to_owned();
        assert!(SECTIONS.iter().any(|(section, ..)| *section == item), "{list} has no section");
    }
}

#[test]
fn schema_rejects_unknown_fields() {
    let schema = Manifest::schema();
    assert_eq!(schema["additionalProperties"], false);
    for (section, ..) in SECTIONS {
        assert_eq!(schema["$defs"][section]["additionalProperties"], false, "{section}");
    }
}
