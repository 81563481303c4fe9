//! Texts with placeholders for values of the run: `{{args.customer.id}}`, `{{fire_time}}` and a few
//! more.
//!
//! A template has only values, so it cannot loop, read other data or grow without bound. Each value
//! is escaped for its context (a URL, a JSON string, a JSON value). A general engine escapes a
//! whole document alike, so a value could break out of its context. Pure.

mod context;
mod upstream;

use serde_json::Value;

use self::context::ContextName;
pub use self::context::RunContext;
pub use self::upstream::UpstreamValues;
use self::upstream::{UPSTREAM_NAMES, UpstreamName, at_path, is_step};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const LITERAL_OPEN: &str = "'{{'";

const NAMES: &str = "args, args.<path>, job.name, run.id, attempt, attempt.id, fire_time, idempotency_key, timeout_seconds, \
                     tenant.id, tenant.slug, project.id, project.name, queue, trigger, trigger.user, schedule";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Name),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Upstream(UpstreamName),
    /// Path of an argument; empty for all of them.
    Args(Vec<String>),
    Job,
    RunId,
    Attempt,
    FireTime,
    IdempotencyKey,
    Context(ContextName),
}

#[derive(Debug, Clone, Copy)]
pub struct TemplateValues<'a> {
    /// A missing value is an empty text, or `null` as a whole JSON value.
    pub upstream: Option<UpstreamValues<'a>>,
    pub args: &'a Value,
    pub job_name: &'a str,
    pub run_id: &'a str,
    pub attempt: u32,
    /// RFC 3339 in UTC.
    pub fire_time: &'a str,
    pub idempotency_key: &'a str,
    pub context: RunContext<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Percent-encodes every character but letters, digits and `-._~`.
    Percent,
    /// Within a JSON string, escaped for one. Elsewhere a whole JSON value.
    Json,
    Xml,
    Plain,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("has {OPEN} without {CLOSE}; a literal {OPEN} is written {OPEN}{LITERAL_OPEN}{CLOSE}")]
    Unclosed,
    #[error("has no value named {name:?}; there are {NAMES}, {UPSTREAM_NAMES}")]
    Unknown { name: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingValue {
    #[error("the arguments have no {path}, which the template requires")]
    Absent {
        /// From `args` on.
        path: String,
    },
    #[error("the argument {path} is null, and the template needs a text there")]
    Null {
        /// From `args` on.
        path: String,
    },
}

impl Template {
    /// Fails on unclosed braces and on unknown names.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (inner, after) = after.split_once(CLOSE).ok_or(TemplateError::Unclosed)?;
            push_text(&mut pieces, before);
            if inner.trim() == LITERAL_OPEN {
                push_text(&mut pieces, OPEN);
            } else {
                pieces.push(Piece::Value(name(inner.trim())?));
            }
            rest = after;
        }
        push_text(&mut pieces, rest);
        Ok(Self(pieces))
    }

    #[must_use]
    pub fn has_values(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Value(_)))
    }

    #[must_use]
    pub fn literal_beginning(&self) -> &str {
        match self.0.first() {
            Some(Piece::Text(text)) => text,
            Some(Piece::Value(_)) | None => "",
        }
    }

    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Value(_) => None,
        })
    }

    /// Fails if the run lacks a value.
    pub fn render(&self, values: &TemplateValues<'_>, form: Form) -> Result<String, MissingValue> {
        self.fill(form, |name, is_whole| write(name, values, form, is_whole))
    }

    #[must_use]
    pub fn sample(&self, form: Form) -> String {
        let stand_in = |_: &Name, is_whole: bool| {
            Ok::<_, std::convert::Infallible>(if is_whole { "null" } else { "x" }.to_owned())
        };
        match self.fill(form, stand_in) {
            Ok(text) => text,
            Err(never) => match never {},
        }
    }

    /// The flag reports whether the placeholder is a whole JSON value.
    fn fill<E>(&self, form: Form, value: impl Fn(&Name, bool) -> Result<String, E>) -> Result<String, E> {
        let mut text = String::new();
        let mut place = JsonPlace::default();
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => {
                    place.pass(literal);
                    text.push_str(literal);
                }
                Piece::Value(name) => {
                    text.push_str(&value(name, form == Form::Json && !place.is_in_string)?);
                    place.is_escaped = false;
                }
            }
        }
        Ok(text)
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(last)) => last.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

fn name(text: &str) -> Result<Name, TemplateError> {
    if let Some(name) = text.strip_prefix("upstream.").and_then(UpstreamName::parse) {
        return Ok(Name::Upstream(name));
    }
    match text {
        "args" => Ok(Name::Args(Vec::new())),
        "job.name" => Ok(Name::Job),
        "run.id" => Ok(Name::RunId),
        "attempt" => Ok(Name::Attempt),
        "fire_time" => Ok(Name::FireTime),
        "idempotency_key" => Ok(Name::IdempotencyKey),
        _ => {
            if let Some(name) = ContextName::parse(text) {
                return Ok(Name::Context(name));
            }
            let path: Option<Vec<String>> =
                text.strip_prefix("args.").map(|path| path.split('.').map(str::to_owned).collect());
            match path {
                Some(path) if path.iter().all(|step| is_step(step)) => Ok(Name::Args(path)),
                _ => Err(TemplateError::Unknown { name: text.to_owned() }),
            }
        }
    }
}

/// Inside or outside of a string.
#[derive(Default)]
struct JsonPlace {
    is_in_string: bool,
    is_escaped: bool,
}

impl JsonPlace {
    fn pass(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' if self.is_in_string => self.is_escaped = true,
                '"' => self.is_in_string = !self.is_in_string,
                _ => {}
            }
        }
    }
}

fn write(
    name: &Name,
    values: &TemplateValues<'_>,
    form: Form,
    is_whole: bool,
) -> Result<String, MissingValue> {
    let value = match name {
        Name::Upstream(name) => values.upstream.map(|upstream| upstream.value(name)).unwrap_or_default(),
        Name::Args(path) => argument(values.args, path)?.clone(),
        Name::Job => values.job_name.into(),
        Name::RunId => values.run_id.into(),
        Name::Attempt => values.attempt.into(),
        Name::FireTime => values.fire_time.into(),
        Name::IdempotencyKey => values.idempotency_key.into(),
        Name::Context(name) => values.context.value(*name),
    };
    if is_whole {
        return Ok(value.to_string());
    }
    let text = match (value, name) {
        (Value::Null, Name::Args(path)) => return Err(MissingValue::Null { path: shown(path) }),
        (Value::Null, _) => String::new(),
        (Value::String(text), _) => text,
        (other, _) => other.to_string(),
    };
    Ok(match form {
        Form::Percent => percent_encoded(&text),
        Form::Json => json_escaped(&text),
        Form::Xml => xml_escaped(&text),
        Form::Plain => text,
    })
}

fn argument<'a>(args: &'a Value, path: &[String]) -> Result<&'a Value, MissingValue> {
    at_path(args, path).ok_or_else(|| MissingValue::Absent { path: shown(path) })
}

fn shown(path: &[String]) -> String {
    std::iter::once("args").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(".")
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
}

fn xml_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(template: &str, args: &Value, form: Form) -> Result<String, MissingValue> {
        let values = TemplateValues {
            upstream: None,
            args,
            job_name: "nightly",
            run_id: "d-1",
            attempt: 2,
            fire_time: "2026-11-21T04:05:06Z",
            idempotency_key: "k-1",
            context: RunContext {
                attempt_id: "a-1",
                timeout_seconds: 55,
                tenant_slug: Some("acme"),
                queue: Some("mail"),
                trigger: "manual",
                trigger_user: Some("ann"),
                ..RunContext::default()
            },
        };
        Template::parse(template).unwrap().render(&values, form)
    }

    #[test]
    fn values_are_found_by_their_names() {
        let args = json!({"a": {"b": [10, {"c": "deep"}]}, "t": true, "n": 1.5, "key-1": "x"});
        let table = [
            ("plain", "plain"),
            ("{{args.a.b.0}}-{{ args.a.b.1.c }}", "10-deep"),
            ("{{args.t}} {{args.n}} {{args.key-1}}", "true 1.5 x"),
            (
                "{{job.name}} {{run.id}} {{attempt}} {{fire_time}} {{idempotency_key}}",
                "nightly d-1 2 2026-11-21T04:05:06Z k-1",
            ),
            ("{{args.a.b}}", r#"[10,{"c":"deep"}]"#),
            ("{{attempt.id}} {{timeout_seconds}} {{tenant.slug}} {{queue}}", "a-1 55 acme mail"),
            ("{{trigger}} {{trigger.user}} [{{project.name}}{{project.id}}{{schedule}}]", "manual ann []"),
            ("{{'{{'}}args}} }}", "{{args}} }}"),
        ];
        for (template, expected) in table {
            assert_eq!(render(template, &args, Form::Plain).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn values_never_escape_their_context() {
        let hostile = "a\"b\\c\n</x>&'/?#%../\u{0}é";
        let args = json!({"h": hostile});
        let body = render(r#"{"in": "<{{args.h}}>", "whole": {{args.h}}}"#, &args, Form::Json).unwrap();
        let read: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(read, json!({"in": format!("<{hostile}>"), "whole": hostile}));
        let url = render("/x/{{args.h}}", &args, Form::Percent).unwrap();
        assert_eq!(url, "/x/a%22b%5Cc%0A%3C%2Fx%3E%26%27%2F%3F%23%25..%2F%00%C3%A9");
        let xml = render("<a>{{args.h}}</a>", &args, Form::Xml).unwrap();
        assert!(xml.contains("a&quot;b\\c\n&lt;/x&gt;&amp;&apos;"), "{xml}");
    }

    #[test]
    fn whole_json_values_keep_their_type_and_strings_take_their_text() {
        let args = json!({"n": 1, "null": null, "list": [1], "obj": {"a": "\""}});
        let template = r#"[{{args.n}}, {{args.null}}, {{args.list}}, "{{args.obj}}", "\"{{args.n}}", {{timeout_seconds}}, {{schedule}}]"#;
        let read: Value = serde_json::from_str(&render(template, &args, Form::Json).unwrap()).unwrap();
        assert_eq!(read, json!([1, null, [1], "{\"a\":\"\\\"\"}", "\"1", 55, null]));
    }

    #[test]
    fn missing_value_is_named() {
        let args = json!({"a": {"b": null}, "list": [1]});
        let missing = |template: &str| render(template, &args, Form::Plain).unwrap_err().to_string();
        assert!(missing("{{args.c}}").contains("args.c"));
        assert!(missing("{{args.a.b}}").contains("args.a.b is null"));
        assert!(missing("{{args.list.1}}").contains("args.list.1"));
        assert!(missing("{{args.a.b.c}}").contains("args.a.b.c"));
    }

    #[test]
    fn invalid_template_is_rejected() {
        for text in
            ["{{", "{{args.x}", "{{ }}", "{{arg}}", "{{args.}}", "{{args.a b}}", "{{env.HOME}}", "{{{args}}"]
        {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
