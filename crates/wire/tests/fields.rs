//! `docs/fields.md` says what the types say. After a change: `SCHED_WRITE_DOCS=1 cargo test -p sched-wire --test fields`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]
#![expect(clippy::disallowed_methods, reason = "who writes the document says so by a variable")]

use std::path::Path;

use sched_wire::Manifest;
use serde_json::Value;

/// The types of a jobs file: the heading of each, and what is said above its fields.
const SECTIONS: &[(&str, &str, &str)] = &[
    (
        "JobSpec",
        "Jobs",
        "Items of `jobs`. What the schedule of each kind holds is told in [schedules.md](schedules.md).",
    ),
    (
        "AfterSpec",
        "What a job runs after",
        "Items of `after` of a job; see [dependencies.md](dependencies.md).",
    ),
    (
        "RetryPolicySpec",
        "Retry policies",
        "`retry_policy` of a job or a task function; see [jobs.md](jobs.md#retries).",
    ),
    (
        "FunctionSpec",
        "Task functions",
        "Items of `task_functions`. `handler_config` is told in [process.md](process.md), [http.md](http.md) and [native.md](native.md).",
    ),
    ("QueueDefinition", "Queues", "Items of `queues`; see [queues.md](queues.md)."),
    ("Rate", "Rate of a queue", "`rate` of a queue."),
    (
        "CalendarSpec",
        "Calendars",
        "Items of `calendars`; the forms of days and times are told in [schedules.md](schedules.md).",
    ),
    ("TemplateSpec", "Templates", "Items of `templates`; see [templates.md](templates.md)."),
    ("ParameterSpec", "Parameters of a template", "Values of `parameters` of a template."),
    (
        "NotificationChannelSpec",
        "Notification channels",
        "Items of `notification_channels`; see [notifications.md](notifications.md).",
    ),
    ("NotificationRuleSpec", "Notification rules", "Items of `notification_rules`."),
];

const HEAD: &str = "\
# The fields of a jobs file

Everything that `jobs apply`, `POST /api/v1/apply` and the paths of each kind take. Written from the types of the API, which a test compares.
`schedctl jobs schema` prints the same as a JSON Schema, for editors: with `# yaml-language-server: $schema=sched.schema.json` as its first line a jobs file
is checked while it is written. `deploy/examples/jobs.yaml` shows most of them at work.
";

fn document() -> String {
    let schema = Manifest::schema();
    let definitions = &schema["$defs"];
    let mut text = HEAD.to_owned();
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

/// What a field takes.
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
        _ => "see its document".to_owned(),
    }
}

/// A type by its name: the words it takes, or where it is told.
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
fn the_document_of_all_fields_says_what_the_types_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fields.md");
    let text = document();
    if std::env::var_os("SCHED_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/fields.md is not what the types say; write it anew with SCHED_WRITE_DOCS=1"
    );
    let schema = Manifest::schema();
    let lists = schema["properties"].as_object().unwrap();
    for (list, property) in lists {
        let item = property["items"]["$ref"].as_str().unwrap().trim_start_matches("#/$defs/").to_owned();
        assert!(SECTIONS.iter().any(|(section, ..)| *section == item), "{list} is not told");
    }
}

#[test]
fn a_field_that_is_none_is_a_mistake_to_an_editor() {
    let schema = Manifest::schema();
    assert_eq!(schema["additionalProperties"], false);
    for (section, ..) in SECTIONS {
        assert_eq!(schema["$defs"][section]["additionalProperties"], false, "{section}");
    }
}
