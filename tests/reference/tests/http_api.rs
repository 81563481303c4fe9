#![expect(clippy::unwrap_used, reason = "a missing value fails the test with its position")]

use std::collections::BTreeSet;

use reference::{check_page, row, table_head};
use serde_json::Value;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        METHODS
            .into_iter()
            .filter_map(move |method| Some((method.to_uppercase(), path.clone(), item.get(method)?)))
    });
    each.collect()
}

fn statuses(operation: &Value) -> BTreeSet<String> {
    operation["responses"].as_object().unwrap().keys().cloned().collect()
}

fn names(operation: &Value, place: &str) -> Vec<String> {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let of = parameters.iter().filter(|one| one["in"] == place).filter_map(|one| one["name"].as_str());
    of.filter(|name| !matches!(*name, "limit" | "cursor")).map(|name| format!("`{name}`")).collect()
}

#[test]
fn reference_http_api_is_current() {
    let document = sched_api::openapi();
    let operations = operations(&document);
    assert!(operations.len() > 50, "{} operations", operations.len());
    let common = operations.iter().map(|(_, _, operation)| statuses(operation));
    let common = common.reduce(|a, b| a.intersection(&b).cloned().collect()).unwrap();
    let tag = |operation: &Value| operation["tags"][0].as_str().unwrap_or("other").to_owned();
    let tags: BTreeSet<String> = operations.iter().map(|(_, _, operation)| tag(operation)).collect();
    let mut text = String::new();
    for name in tags {
        text += &format!("\n## {name}\n\n{}", table_head(&["Route", "Permission", "Does", "Answers"]));
        for (method, path, operation) in operations.iter().filter(|(_, _, operation)| tag(operation) == name)
        {
            let path = path.strip_prefix("/api/v1").unwrap_or(path);
            let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
            let permission = match operation["x-permission"].as_str() {
                Some(permission) => format!("`{permission}`"),
                None if is_open => "none".to_owned(),
                None => "any key".to_owned(),
            };
            let mut does = operation["summary"].as_str().unwrap_or_default().to_owned();
            let query = names(operation, "query");
            if !query.is_empty() {
                does += &format!(" (query: {})", query.join(", "));
            }
            let headers = names(operation, "header");
            if !headers.is_empty() {
                does += &format!(" (header: {})", headers.join(", "));
            }
            let answers: Vec<_> = statuses(operation).difference(&common).cloned().collect();
            text += &row(&[&format!("`{method} {path}`"), &permission, &does, &answers.join(", ")]);
        }
    }
    check_page("http-api.md", &text);
}
