use std::collections::BTreeSet;

use sched_model::domain::secret::MAX_SECRET_BYTES;
use sched_wire::MAX_PREVIEW;

use super::*;
use crate::http::extract::MERGE_PATCH_JSON;
use crate::routes::table::table;

fn the_document() -> Value {
    document(&table())
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match value {
                Value::String(text) if key == "$ref" => vec![text.clone()],
                value => references(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[test]
fn document_lists_exactly_the_routes() {
    let (table, document) = (table(), the_document());
    let mut routes = BTreeSet::new();
    for path in &table {
        for operation in path.operations() {
            assert!(
                routes.insert((format!("{BASE_PATH}{}", path.pattern()), verb(operation.method()))),
                "{path:?}",
                path = path.pattern()
            );
        }
    }
    let mut documented = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        documented.extend(methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())));
    }
    assert!(routes.len() > 50, "{}", routes.len());
    assert_eq!(routes, documented);
}

#[test]
fn references_resolve_and_schemas_are_used() {
    let document = the_document();
    let mut used = BTreeSet::new();
    for reference in references(&document) {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
        used.insert(reference);
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(used.contains(&format!("{}{name}", naming::SCHEMAS)), "{name}");
    }
    assert!(!document.to_string().contains(MARK));
}

#[test]
fn operation_ids_are_unique_and_permissions_documented() {
    let document = the_document();
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{method} {path}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
            let (bearer, is_public) = (json!({"bearer": []}), json!([]));
            let security = match (method.as_str(), path.as_str()) {
                ("get", "/api/v1" | "/api/v1/openapi.json") | ("post", "/api/v1/sessions") => Some(is_public),
                ("get", _) => None,
                _ => Some(json!([bearer, {"cookie": [], "csrf": []}])),
            };
            assert_eq!(operation.get("security"), security.as_ref(), "{method} {path}");
        }
    }
    assert_eq!(document["paths"]["/api/v1/jobs"]["post"]["x-permission"], "jobs:write");
}

#[test]
fn request_schemas_are_closed_and_answer_schemas_complete() {
    let document = the_document();
    let schemas = &document["components"]["schemas"];
    for spec in ["JobSpec", "QueueSpec", "FunctionSpec", "PauseRequest"] {
        assert_eq!(schemas[spec]["additionalProperties"], false, "{spec}");
    }
    let required: Vec<&str> =
        schemas["Queue"]["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(required.contains(&"default_priority") && required.contains(&"running"), "{required:?}");
    let parameters = document["paths"]["/api/v1/runs"]["get"]["parameters"].as_array().unwrap();
    let status = parameters.iter().find(|one| one["name"] == "status").unwrap();
    assert_eq!((status["in"].as_str(), status["required"].as_bool()), (Some("query"), Some(false)));
    assert!(status["schema"].to_string().contains("RunFilter"), "{status}");
}

#[test]
fn headers_and_refusals_are_documented() {
    let document = the_document();
    let job = &document["paths"]["/api/v1/jobs/{job}"];
    for (method, status, name, is_there) in [
        ("get", "200", "ETag", true),
        ("put", "201", "ETag", true),
        ("put", "201", "Location", true),
        ("put", "200", "Idempotency-Replayed", true),
        ("get", "200", "Idempotency-Replayed", false),
        ("delete", "200", "ETag", false),
    ] {
        let found = job[method]["responses"][status]["headers"].get(name);
        assert_eq!(found.is_some(), is_there, "{method} {status} {name}");
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for status in ["405", "500", "503"] {
                assert!(operation["responses"].get(status).is_some(), "{method} {path} {status}");
            }
        }
    }
    for (refusal, name) in [
        ("TooManyRequests", "Retry-After"),
        ("ServiceUnavailable", "Retry-After"),
        ("MethodNotAllowed", "Allow"),
    ] {
        assert!(document["components"]["responses"][refusal]["headers"].get(name).is_some(), "{refusal}");
    }
    assert!(document["x-websockets"].get(EVENTS_SOCKET).is_some());
}

#[test]
fn limits_of_values_are_documented() {
    let document = the_document();
    let schemas = &document["components"]["schemas"];
    for (schema, field, limit, value) in [
        ("PreviewRequest", "count", "minimum", 1),
        ("PreviewRequest", "count", "maximum", MAX_PREVIEW),
        ("SecretSpec", "value", "minLength", 1),
        ("SecretSpec", "value", "maxLength", MAX_SECRET_BYTES),
        ("Rate", "count", "minimum", 1),
    ] {
        assert_eq!(schemas[schema]["properties"][field][limit], value, "{schema} {field} {limit}");
    }
    let parameter = |path: &str, method: &str, name: &str| {
        let parameters = document["paths"][path][method]["parameters"].as_array().unwrap();
        parameters.iter().find(|one| one["name"] == name).unwrap()["schema"].clone()
    };
    assert_eq!(parameter("/api/v1/jobs/{job}/preview", "get", "count")["minimum"], 1);
    // An empty tag is refused.
    assert_eq!(parameter("/api/v1/jobs/{job}", "put", "If-Match")["pattern"], "^(\\*|\"[^\"]+\")$");
}

/// Every schema of a part of the document, at any depth.
fn schemas(part: &Value) -> Vec<&Value> {
    match part {
        Value::Object(fields) => fields.values().flat_map(schemas).chain([part]).collect(),
        Value::Array(items) => items.iter().flat_map(schemas).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[test]
fn document_has_only_forms_that_generators_read() {
    let document = the_document();
    assert!(document.get("jsonSchemaDialect").is_none(), "Swagger UI warns about it");
    for schema in schemas(&document) {
        let items = [&schema["items"], &schema["contentSchema"]];
        assert!(items.into_iter().all(|inner| !inner.is_boolean()), "{schema}");
        let alternatives =
            ["oneOf", "anyOf"].into_iter().filter_map(|name| schema[name].as_array()).flatten();
        for alternative in alternatives {
            assert!(alternative.is_object() && alternative.get("const").is_none(), "{schema}");
        }
        if schema["in"] == "header" {
            assert!(schema["schema"].get("const").is_none(), "{schema}");
        }
    }
    let status = &document["components"]["schemas"]["RunStatus"];
    let count = |field: &str| status[field].as_array().unwrap().len();
    assert_eq!((status["type"].as_str(), status["enum"][0].as_str()), (Some("string"), Some("waiting")));
    assert_eq!(count("enum"), count("x-enum-descriptions"));
}

#[test]
fn merge_patch_removes_only_optional_fields() {
    let document = the_document();
    let content = &document["paths"]["/api/v1/jobs/{job}"]["patch"]["requestBody"]["content"];
    let named = json!({"$ref": format!("{}JobSpecPatch", naming::SCHEMAS)});
    for media in ["application/json", MERGE_PATCH_JSON] {
        assert_eq!(content[media]["schema"], named, "{media}");
    }
    let patch = &document["components"]["schemas"]["JobSpecPatch"];
    let has_default = |field: &Value| field.to_string().contains("\"default\":");
    assert!(
        !patch["properties"].as_object().unwrap().values().any(has_default),
        "an absent field stays: {patch}"
    );
    assert!(patch.get("required").is_none(), "{patch}");
    let takes_null = |field: &str| patch["properties"][field].to_string().contains("{\"type\":\"null\"}");
    assert!(takes_null("timezone") && takes_null("retry_policy"), "{patch}");
    assert!(!takes_null("function") && !takes_null("job_type"), "{patch}");
}
