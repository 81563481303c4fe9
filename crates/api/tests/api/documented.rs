//! Compares every answer of every test with the OpenAPI document: status, content type and fields.
//!
//! Objects with listed fields are closed: an additional field is undocumented.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use sched_wire::BASE_PATH;
use serde_json::{Map, Value, json};
use test_support::http::{self, Answer};
use tokio::sync::OnceCell;

/// The document, requested once per test process: all APIs are built from the same sources.
static DOCUMENT: OnceCell<Document> = OnceCell::const_new();

struct Document {
    paths: Map<String, Value>,
    components: Value,
    schemas: Mutex<HashMap<String, Arc<Validator>>>,
}

/// # Panics
/// The answer differs from the document.
pub(crate) async fn check(addr: SocketAddr, method: &str, path: &str, answer: &Answer) {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let is_stream = answer.header("transfer-encoding").is_some();
    if !path.starts_with(BASE_PATH)
        || is_stream
        || !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method)
    {
        return;
    }
    let document = DOCUMENT.get_or_try_init(async || {
        http::get(addr, &format!("{BASE_PATH}/openapi.json")).await.map(|served| Document::new(served.json()))
    });
    // If this API has ended, the next answer requests the document again.
    let Ok(document) = document.await else { return };
    if let Err(wrong) = document.check(method, path, answer) {
        panic!("{method} {path} {}: {wrong}: {}", answer.status, answer.body);
    }
}

impl Document {
    fn new(mut document: Value) -> Self {
        close(&mut document["components"]["schemas"], true);
        let mut paths = document["paths"].take();
        close(&mut paths, true);
        let paths = paths.as_object().unwrap().clone();
        Self { paths, components: document["components"].take(), schemas: Mutex::default() }
    }

    fn check(&self, method: &str, path: &str, answer: &Answer) -> Result<(), String> {
        // Undocumented paths are rejected before any documented handler runs.
        let Some((pattern, methods)) = self.find(path) else { return Ok(()) };
        let Some(operation) = methods.get(method.to_lowercase()) else { return Ok(()) };
        let responses = &operation["responses"];
        let mut response = &responses[answer.status.to_string()];
        if let Some(name) = response["$ref"].as_str() {
            response = &self.components["responses"][name.rsplit('/').next().unwrap()];
        }
        if !response.is_object() {
            return Err("the status is in no document".to_owned());
        }
        let media = answer.header("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default();
        if answer.body.is_empty() {
            return Ok(());
        }
        let content = &response["content"][media];
        if !content.is_object() {
            return Err(format!("the document knows no {media:?} here"));
        }
        if !media.ends_with("json") {
            return Ok(());
        }
        let schema =
            self.schema(&format!("{method} {pattern} {} {media}", answer.status), &content["schema"]);
        let body = answer.json();
        let told: Vec<String> = schema
            .iter_errors(&body)
            .take(5)
            .map(|error| {
                format!(
                    "{error} at {:?} by {:?}",
                    error.instance_path().as_str(),
                    error.schema_path().as_str()
                )
            })
            .collect();
        if told.is_empty() { Ok(()) } else { Err(told.join("; ")) }
    }

    fn find(&self, path: &str) -> Option<(&str, &Value)> {
        let fits = |pattern: &str| {
            let (parts, asked) = (pattern.split('/'), path.split('/'));
            parts.clone().count() == asked.clone().count()
                && parts
                    .zip(asked)
                    .all(|(part, asked)| part == asked || part.starts_with('{') && !asked.is_empty())
        };
        let found = self.paths.iter().filter(|(pattern, _)| fits(pattern));
        found
            .min_by_key(|(pattern, _)| pattern.matches('{').count())
            .map(|(pattern, methods)| (pattern.as_str(), methods))
    }

    fn schema(&self, key: &str, schema: &Value) -> Arc<Validator> {
        let mut known = self.schemas.lock().unwrap();
        let read = || {
            let whole = json!({"allOf": [schema], "components": self.components});
            let options = jsonschema::options().should_validate_formats(true);
            Arc::new(options.build(&whole).unwrap_or_else(|error| panic!("{key}: {error}")))
        };
        Arc::clone(known.entry(key.to_owned()).or_insert_with(read))
    }
}

/// Closes objects with listed fields, unless they are parts of a larger schema (`is_whole`).
fn close(value: &mut Value, is_whole: bool) {
    match value {
        Value::Object(fields) => {
            let lists = fields.get("properties").is_some_and(Value::is_object);
            let says = ["additionalProperties", "unevaluatedProperties"]
                .iter()
                .any(|name| fields.contains_key(*name));
            if is_whole && lists && !says {
                fields.insert("unevaluatedProperties".to_owned(), false.into());
            }
            for (name, inner) in fields.iter_mut() {
                match (name.as_str(), inner) {
                    ("properties", Value::Object(named)) => {
                        named.values_mut().for_each(|one| close(one, true))
                    }
                    ("allOf" | "anyOf" | "oneOf", inner) => close(inner, is_whole && !lists),
                    (_, inner) => close(inner, true),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| close(item, is_whole)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn an_answer_that_is_not_as_documented_is_found() {
    let document = Document::new(json!({
        "paths": {"/api/v1/a/{id}": {"get": {"responses": {
            "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}},
            "404": {"$ref": "#/components/responses/NotFound"},
        }}}},
        "components": {
            "schemas": {"A": {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}},
            "responses": {"NotFound": {"content": {"application/problem+json": {"schema": {"type": "object"}}}}},
        },
    }));
    let judge = |status: u16, media: &str, body: &str| {
        let headers = vec![("Content-Type".to_owned(), media.to_owned())];
        document.check("GET", "/api/v1/a/1", &Answer { status, headers, body: body.to_owned() })
    };
    assert_eq!(judge(200, "application/json; charset=utf-8", r#"{"b": "c"}"#), Ok(()));
    assert_eq!(judge(404, "application/problem+json", "{}"), Ok(()));
    for (status, media, body, told) in [
        (200, "application/json", r#"{"b": 1}"#, "not of type"),
        (200, "application/json", "{}", "required"),
        (200, "application/json", r#"{"b": "c", "d": 1}"#, "'d' was unexpected"),
        (200, "text/plain", "b", "knows no"),
        (418, "application/json", "{}", "in no document"),
    ] {
        let wrong = judge(status, media, body).unwrap_err();
        assert!(wrong.contains(told), "{wrong}");
    }
}
