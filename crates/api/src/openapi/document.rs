//! Builds the OpenAPI document.

mod refusals;

use std::collections::BTreeSet;

use actix_web::http::{Method, StatusCode};
use sched_wire::{
    BASE_PATH, CSRF_TOKEN, EVENTS_SOCKET, IDEMPOTENCY_KEY, PROBLEM_JSON, Problem, SESSION_COOKIE,
};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use self::refusals::{REFUSALS, refusal, refusal_header, refusals};
use super::naming::{self, Schemas};
use super::portable;
use crate::http::idempotency::is_about_secrets;
use crate::http::route::{Needs, Operation, Path};
use crate::openapi::operation::{EVENT_STREAM, OperationDoc, RequestBody, ResponseDoc};

pub(crate) fn document(table: &[Path]) -> Value {
    let mut writing = Writing::new();
    let mut paths = Map::new();
    for path in table {
        let methods: Map<String, Value> =
            path.operations().map(|one| (verb(one.method()), writing.operation(path, one))).collect();
        paths.insert(format!("{BASE_PATH}{}", path.pattern()), Value::Object(methods));
    }
    let mut document = json!({
        "openapi": "3.1.1",
        "info": {
            "title": "sched",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Jobs, their schedules, and the outcome of every fire.",
            "license": {"name": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        // OpenAPI has no WebSockets.
        "x-websockets": {EVENTS_SOCKET: {
            "summary": "Follow events over a WebSocket: the messages of `/api/v1/events/stream`, as JSON",
            "parameters": "those of `/api/v1/events/stream`",
            "x-permission": "runs:read",
        }},
    });
    let components = writing.components(&mut document);
    if let Some(document) = document.as_object_mut() {
        document.insert("components".to_owned(), components);
    }
    portable::rewrite(&mut document);
    document
}

struct Writing {
    request: SchemaGenerator,
    answered: SchemaGenerator,
}

impl Writing {
    fn new() -> Self {
        let settings = || {
            let mut settings = SchemaSettings::draft2020_12();
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings
        };
        Self {
            request: settings().for_deserialize().into_generator(),
            answered: settings().for_serialize().into_generator(),
        }
    }

    fn operation(&mut self, path: &Path, operation: &Operation) -> Value {
        let (method, needs, says) = (operation.method(), operation.needs(), operation.operation());
        let mut value = json!({
            "operationId": id(method, path.pattern()),
            "summary": says.summary,
            "tags": [tag(path.pattern())],
            "parameters": self.parameters(path, method, says),
            "responses": self.responses(path, method, says),
        });
        let Some(fields) = value.as_object_mut() else { return value };
        if let Needs::Permission(permission) = needs {
            let text = format!("Needs the permission `{permission}`.");
            fields.insert("description".to_owned(), text.into());
            fields.insert("x-permission".to_owned(), permission.to_string().into());
        }
        if needs == Needs::Nothing {
            fields.insert("security".to_owned(), json!([]));
        } else if !method.is_safe() {
            fields.insert("security".to_owned(), json!([{"bearer": []}, {"cookie": [], "csrf": []}]));
        }
        if let Some(body) = &says.body {
            fields.insert("requestBody".to_owned(), self.body(body));
        }
        value
    }

    fn parameters(&mut self, path: &Path, method: &Method, says: &OperationDoc) -> Vec<Value> {
        let of_path = placeholders(path.pattern()).map(|name| {
            let (schema, description) = placeholder(name);
            json!({"name": name, "in": "path", "required": true, "schema": schema, "description": description})
        });
        let mut parameters: Vec<Value> = of_path.collect();
        if let Some(schema) = says.query {
            parameters.extend(self.of_query(schema));
        }
        let mut header = |name: &str, schema: Value, description: &str| {
            parameters.push(json!({
                "name": name, "in": "header", "required": false, "schema": schema, "description": description,
            }));
        };
        if says.is_conditional {
            header(
                "If-Match",
                json!({"type": "string", "pattern": "^(\\*|\"[^\"]+\")$"}),
                "The `ETag` that the resource must still have; otherwise 412.",
            );
        }
        if says.is_conditional && method == Method::PUT {
            header(
                "If-None-Match",
                // Not `const`, of which generators of clients make no header.
                json!({"type": "string", "pattern": "^\\*$"}),
                "`*`: refused if the resource exists.",
            );
        }
        if accepts_key(path, method, says) {
            header(
                IDEMPOTENCY_KEY,
                json!({"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}),
                "1 to 200 visible characters. A request that is repeated with its key takes effect once and gets the first answer.",
            );
        }
        if says.is_resumable {
            header("Last-Event-ID", json!({"type": "string"}), "Continue after this event.");
        }
        parameters
    }

    fn of_query(&mut self, schema: fn(&mut SchemaGenerator) -> schemars::Schema) -> Vec<Value> {
        let object = schema(&mut self.request).to_value();
        let required: Vec<&str> = match object.get("required").and_then(Value::as_array) {
            Some(names) => names.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
        };
        let fields = object.get("properties").and_then(Value::as_object);
        let parameter = |(name, schema): (&String, &Value)| {
            let mut schema = not_null(schema.clone());
            let description = schema.as_object_mut().and_then(|fields| fields.remove("description"));
            json!({
                "name": name, "in": "query", "required": required.contains(&name.as_str()), "schema": schema,
                "description": description,
            })
        };
        fields.into_iter().flatten().map(parameter).collect()
    }

    fn body(&mut self, request: &RequestBody) -> Value {
        let schema = (request.schema)(&mut self.request).to_value();
        let content: Map<String, Value> =
            request.media_types.iter().map(|kind| ((*kind).to_owned(), json!({"schema": schema}))).collect();
        json!({"required": request.is_required, "content": content})
    }

    fn responses(&mut self, path: &Path, method: &Method, says: &OperationDoc) -> Value {
        let mut responses = Map::new();
        for given in &says.answers {
            let mut answer = self.answer(given);
            let headers = headers(path, method, says, given.status);
            if let (false, Some(fields)) = (headers.is_empty(), answer.as_object_mut()) {
                fields.insert("headers".to_owned(), Value::Object(headers));
            }
            responses.insert(given.status.as_str().to_owned(), answer);
        }
        for status in refusals(path, method, says) {
            let problem = json!({"$ref": format!("#/components/responses/{}", refusal(status))});
            responses.insert(status.as_str().to_owned(), problem);
        }
        Value::Object(responses)
    }

    fn answer(&mut self, given: &ResponseDoc) -> Value {
        let description = given.status.canonical_reason().unwrap_or("Answer");
        match given.schema {
            Some(schema) => {
                let mut schema = schema(&mut self.answered).to_value();
                mark(&mut schema);
                if given.media_type == EVENT_STREAM {
                    schema = event(&schema);
                }
                json!({"description": description, "content": {given.media_type: {"schema": schema}}})
            }
            None => json!({"description": description}),
        }
    }

    /// Changes the references of answers in `document` to the schemas of answers.
    fn components(mut self, document: &mut Value) -> Value {
        let problem = self.answered.subschema_for::<Problem>().to_value();
        let request: Schemas = self.request.take_definitions(true);
        let answered: Schemas = self.answered.take_definitions(true);
        let (schemas, renamed) = naming::joined(request, answered);
        settle(document, &renamed);
        let refusals: Map<String, Value> = REFUSALS
            .iter()
            .map(|(status, description)| {
                let content = json!({PROBLEM_JSON: {"schema": problem}});
                let mut answer = json!({"description": description, "content": content});
                if let (Some((name, description)), Some(fields)) =
                    (refusal_header(*status), answer.as_object_mut())
                {
                    fields.insert("headers".to_owned(), json!({name: header(description)}));
                }
                (refusal(*status), answer)
            })
            .collect();
        json!({
            "schemas": schemas,
            "responses": refusals,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, `sched_…`, or a token of the issuer that this installation trusts.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": SESSION_COOKIE,
                    "description": "A session, from `POST /api/v1/sessions`. `Authorization` takes precedence.",
                },
                "csrf": {
                    "type": "apiKey",
                    "in": "header",
                    "name": CSRF_TOKEN,
                    "description": "The `csrf_token` of the session, beside its cookie, for requests that change something.",
                },
            },
        })
    }
}

fn event(data: &Value) -> Value {
    json!({
        "type": "object",
        "description": "One server-sent event.",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "description": "The position after this event, for `Last-Event-ID`."},
            "event": {"type": "string"},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
        },
    })
}

/// Marks the schemas of answers until their names are final.
const MARK: &str = "x-answered";

fn mark(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.insert(MARK.to_owned(), Value::Null);
    }
}

fn settle(value: &mut Value, renamed: &BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let is_answer = fields.remove(MARK).is_some();
            fields.values_mut().for_each(|value| settle(value, renamed));
            if is_answer {
                naming::rename(value, renamed);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| settle(item, renamed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A parameter is present or absent; it cannot be `null`.
fn not_null(mut schema: Value) -> Value {
    let Some(fields) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            fields.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [choice] = choices.as_slice() {
            let choice = choice.clone();
            fields.remove("anyOf");
            fields.extend(choice.as_object().cloned().unwrap_or_default());
        }
    }
    schema
}

fn header(description: &str) -> Value {
    json!({"description": description, "schema": {"type": "string"}})
}

fn accepts_key(path: &Path, method: &Method, says: &OperationDoc) -> bool {
    says.is_repeatable || !method.is_safe() && !is_about_secrets(path.pattern())
}

fn headers(path: &Path, method: &Method, says: &OperationDoc, status: StatusCode) -> Map<String, Value> {
    let mut headers = Map::new();
    // A resource with conditional requests returns its tag, unless the answer reports its deletion.
    let has_tag = says.is_conditional || path.operations().any(|one| one.operation().is_conditional);
    if has_tag && method != Method::DELETE && matches!(status, StatusCode::OK | StatusCode::CREATED) {
        headers.insert("ETag".to_owned(), header("The entity tag of the resource, for `If-Match`."));
    }
    if matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED) {
        headers.insert("Location".to_owned(), header("The URL of the new resource, if one was created."));
    }
    if accepts_key(path, method, says) {
        let text = "`true` when this is the stored answer of an earlier request with the same key; absent otherwise.";
        headers.insert("Idempotency-Replayed".to_owned(), header(text));
    }
    headers
}

pub(super) fn placeholders(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn placeholder(name: &str) -> (Value, &'static str) {
    let text = json!({"type": "string", "minLength": 1});
    match name {
        "job" => (text, "Id or name of the job."),
        "id" => (json!({"type": "string", "format": "uuid"}), "Identifier."),
        "entry" => (json!({"type": "integer", "format": "int64"}), "Id of the audit event."),
        "event" => (text, "Id of the event, from a list or a stream."),
        "email" => (text, "E-mail of the user, in any case."),
        "key" => (text, "Id or prefix of the key."),
        _ => (text, "Name."),
    }
}

fn tag(pattern: &str) -> &str {
    pattern.trim_start_matches('/').split('/').next().filter(|part| !part.is_empty()).unwrap_or("index")
}

/// `GET /jobs/{job}/versions` is `get_jobs_job_versions`.
fn id(method: &Method, pattern: &str) -> String {
    let pattern = if pattern.is_empty() { "/index" } else { pattern };
    let path = pattern.replace(['{', '}'], "").replace(['/', '-', '.'], "_");
    format!("{}{path}", verb(method))
}

fn verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
