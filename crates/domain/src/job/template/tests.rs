use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

fn template(parameters: Value, job: Value) -> Template {
    Template { parameters: serde_json::from_value(parameters).unwrap(), job: object(job) }
}

fn report() -> Template {
    template(
        json!({
            "region": {"type": "string", "description": "where", "required": true},
            "minute": {"type": "integer", "default": 5, "required": false},
            "tags": {"type": "array", "required": false},
            "level": {"type": "string", "default": "low", "choices": ["low", "high"], "required": false},
        }),
        json!({
            "name": "report-{{region}}",
            "schedule_config": {"expression": "{{ minute }} 2 * * *"},
            "timeout_seconds": "{{minute}}",
            "task_args": {"tags": "{{tags}}", "all": ["{{tags}}", "{{level}}", "{{'{{'}}x}}"], "deep": [{"a": "{{region}}/{{region}}"}]},
        }),
    )
}

fn pointers(wrong: &[TemplateMistake]) -> Vec<&str> {
    wrong.iter().map(|wrong| wrong.pointer.as_str()).collect()
}

#[test]
fn values_keep_their_types() {
    let template = report();
    assert_eq!(template.mistakes(), []);
    let job =
        template.fill(&object(json!({"region": "north", "tags": ["a", {"b": 1}], "level": "high"}))).unwrap();
    assert_eq!(
        Value::from(job),
        json!({
            "name": "report-north",
            "schedule_config": {"expression": "5 2 * * *"},
            "timeout_seconds": 5,
            "task_args": {"tags": ["a", {"b": 1}], "all": [["a", {"b": 1}], "high", "{{x}}"], "deep": [{"a": "north/north"}]},
        })
    );
}

#[test]
fn field_without_a_value_is_omitted() {
    let job = report().fill(&object(json!({"region": "north"}))).unwrap();
    assert_eq!(job["task_args"], json!({"all": ["low", "{{x}}"], "deep": [{"a": "north/north"}]}));
}

#[test]
fn values_never_change_other_fields() {
    for hostile in [
        "\"}, \"function\": \"rm\", {\"x\": \"",
        "{{region}}",
        "{{minute}}",
        "\\u0022",
        "a\nb\u{7f}",
        "}}",
        "{{",
    ] {
        let job = report().fill(&object(json!({"region": hostile}))).unwrap();
        assert_eq!(job["task_args"]["deep"][0]["a"], json!(format!("{hostile}/{hostile}")));
        assert_eq!(job.keys().collect::<Vec<_>>(), report().job.keys().collect::<Vec<_>>());
        let text = Value::from(job.clone()).to_string();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), Value::from(job), "{hostile:?}");
    }
}

#[test]
fn all_wrong_values_are_reported_with_fixes() {
    let given = json!({"minute": 1.5, "tags": "a", "level": "middle", "regoin": "north", "a/b": null});
    let wrong = report().fill(&object(given)).unwrap_err();
    assert_eq!(pointers(&wrong), ["/a~1b", "/regoin", "/level", "/minute", "/region", "/tags"]);
    let told: Vec<&str> = wrong.iter().skip(1).map(|wrong| wrong.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "the template has no such parameter; use one of level, minute, region, tags",
            "must be one of \"low\", \"high\"",
            "must be a whole number, not one with a fraction",
            "must be given: a string (where)",
            "must be a list, not a string",
        ]
    );
    let null = report().fill(&object(json!({"region": null}))).unwrap_err();
    assert_eq!(null[0].message, "must be a string, not null");
}

#[test]
fn filled_job_size_is_bounded() {
    let places: Vec<&str> = vec!["{{x}}"; 1000];
    let of = |kind: &str| {
        template(json!({"x": {"type": kind, "required": true}}), json!({"task_args": {"all": places}}))
    };
    let long = "x".repeat(1000);
    assert_eq!(of("string").fill(&object(json!({"x": long}))).unwrap_err()[0].pointer, "");
    let deep = |depth| (0..depth).fold(json!([]), |inner, _| json!([inner]));
    let once =
        template(json!({"x": {"type": "array", "required": true}}), json!({"task_args": {"a": "{{x}}"}}));
    assert!(once.fill(&object(json!({"x": deep(90)}))).is_ok());
    let refused = once.fill(&object(json!({"x": deep(120)}))).unwrap_err();
    assert!(refused[0].message.contains("122 deep"), "{}", refused[0].message);
}

#[test]
fn declarations_and_placeholders_must_match() {
    let template = template(
        json!({
            "Bad-Name": {"type": "string", "required": true},
            "unused": {"type": "string", "required": true},
            "both": {"type": "integer", "default": 1, "required": true},
            "wrong": {"type": "integer", "default": "1", "required": false},
            "choice": {"type": "string", "default": "c", "choices": ["a", 2], "required": false},
            "list": {"type": "array", "required": true},
            "maybe": {"type": "string", "required": false},
        }),
        json!({
            "name": "{{Bad-Name}} {{both}} {{wrong}} {{choice}}",
            "description": "{{list}} in text",
            "queue": "{{maybe}}!",
            "project": "{{nobody}}",
            "task_args": {"open": "{{", "{{maybe}}": 1, "fine": "{{list}}"},
        }),
    );
    assert_eq!(
        pointers(&template.mistakes()),
        [
            "/parameters/Bad-Name",
            "/parameters/both/default",
            "/parameters/choice/choices/1",
            "/parameters/choice/default",
            "/parameters/wrong/default",
            "/job/description",
            "/job/project",
            "/job/queue",
            "/job/task_args/open",
            "/job/task_args/{{maybe}}",
            "/parameters/unused",
        ]
    );
    let many = (0..=MOST_PARAMETERS).map(|n| (format!("p{n}"), json!({"type": "string", "required": true})));
    let many = Value::Object(many.collect());
    assert_eq!(pointers(&self::template(many, json!({})).mistakes())[0], "/parameters");
}

#[test]
fn job_field_maps_back_to_parameters() {
    let template = report();
    for (pointer, names) in [
        ("/schedule_config/expression", &["minute"][..]),
        ("/schedule_config", &["minute"]),
        ("/schedule_config/timezone", &[]),
        ("/task_args/all/0/1/b", &["tags"]),
        ("/task_args/deep/0/a", &["region"]),
        ("/nothing", &[]),
        ("", &[]),
    ] {
        assert_eq!(template.behind(pointer), names, "{pointer}");
    }
}
