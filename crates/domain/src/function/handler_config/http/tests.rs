use serde_json::{Value, json};

use super::*;

fn fields(config: &Value) -> Vec<String> {
    match HttpConfig::parse(config) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.into_iter().map(|mistake| mistake.field).collect(),
    }
}

fn values(args: &Value) -> TemplateValues<'_> {
    TemplateValues {
        upstream: None,
        args,
        job_name: "nightly report",
        run_id: "d-1",
        attempt: 2,
        fire_time: "2026-11-21T04:05:06Z",
        idempotency_key: "k",
        context: RunContext::default(),
    }
}

#[test]
fn a_url_alone_gets_the_defaults() {
    let config = HttpConfig::parse(json!({"url": "https://example.com"})).unwrap();
    assert_eq!(config.method, HttpMethod::Post);
    assert_eq!((config.connect_timeout_seconds, config.max_response_chars), (10, 10_000));
    assert_eq!(config.circuit_breaker, CircuitBreaker { failures: 10, cooldown_seconds: 30 });
    assert_eq!([199, 200, 299, 300].map(|status| config.expects(status)), [false, true, true, false]);
    let args = json!({"a": 1});
    assert_eq!(config.filled_body(&values(&args)).unwrap().as_deref(), Some(r#"{"a":1}"#));
    assert!(config.lacks_content_type());
}

#[test]
fn good_configurations_are_accepted_and_survive_being_stored() {
    let key = format!("whsec_{}", "A".repeat(32));
    for config in [
        json!({"url": "http://[2606:4700::1]:8080/a?b={{args.b}}", "method": "GET"}),
        json!({"url": "HTTPS://Example.com/{{args.a}}/x", "expect_status": [200, "3xx", "404-410"]}),
        json!({"url": "https://example.com/", "headers": {"Authorization": {"secret": "token"}, "X-A": "{{attempt}}"}}),
        json!({"url": "https://example.com/", "body": "{\"a\": {{args.a}}, \"b\": \"x{{args.b}}\"}"}),
        json!({"url": "https://example.com/", "body": "a={{args.a}}",
            "headers": {"content-type": "application/x-www-form-urlencoded"}}),
        json!({"url": "https://example.com/", "result": "/data/0", "metrics": {"rows_1": "/n", "all": ""}}),
        json!({"url": "https://example.com/", "sign": {"secrets": [key, {"secret": "old"}]},
            "circuit_breaker": {"failures": 0}, "retry_after_max_seconds": 0}),
    ] {
        let read = HttpConfig::parse(&config).unwrap_or_else(|wrong| panic!("{config}: {wrong:?}"));
        assert_eq!(HttpConfig::parse(serde_json::to_value(&read).unwrap()).as_ref(), Ok(&read));
    }
}

#[test]
fn each_mistake_names_its_field() {
    let with = |field: &str, value: Value| {
        let mut config = json!({"url": "https://example.com/"});
        config[field] = value;
        fields(&config)
    };
    assert_eq!(fields(&json!({})), [""]);
    for url in [
        "",
        "example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com",
        "http:/example.com",
        "http:///example.com",
        "https://",
        "https://user@example.com/",
        "https://a:b@example.com/",
        "https://example.com{{args.x}}",
        "https://{{args.x}}example.com/",
        "https://{{args.x}}{{args.y}}/",
        "https://{{args.user}}@example.com/",
        "{{args.scheme}}://example.com/",
        "https://example.com:{{args.port}}/",
        "{{args.url}}",
        "https://example.com/../x",
        "https://example.com/%2E%2e/x",
        "https://example.com/#a",
        "https://example.com/a b",
        "https://example.com\\@evil/",
        "https://exa\tmple.com/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://[fe80::1%25eth0]/",
        "https://1.2.3.4.5/",
        "https://example.com/{{x}}",
        "https://example.com/{{args.a",
        "javascript:alert(1)",
        "https://exa<mple.com/",
    ] {
        assert_eq!(with("url", json!(url)), ["url"], "{url}");
    }
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "TE",
        "Upgrade",
        "Proxy-Authorization",
        "Webhook-Signature",
        "webhook-id",
        "Expect",
        "traceparent",
        "Accept-Encoding",
        "a b",
        "a:b",
        "",
        "a\r\nb",
    ] {
        assert_eq!(with("headers", json!({name: "x"})), [format!("headers.{name}")], "{name}");
    }
    for value in ["a\r\nb: c", "a\nb", "\u{0}", "{{args.x", "{{nothing}}"] {
        assert_eq!(with("headers", json!({"X-A": value})), ["headers.X-A"], "{value:?}");
    }
    assert_eq!(with("headers", json!({"X-A": "1", "x-a": "2"})), ["headers.x-a"]);
    assert_eq!(with("body", json!("{\"a\": }")), ["body"]);
    assert_eq!(with("body", json!("{{oops}}")), ["body"]);
    assert_eq!(fields(&json!({"url": "https://a.b/", "method": "GET", "body": "{}"})), ["body"]);
    assert_eq!(with("headers", json!({"Content-Type": "text/csv"})), ["body"]);
    assert_eq!(with("expect_status", json!([])), ["expect_status"]);
    assert_eq!(with("result", json!("data")), ["result"]);
    assert_eq!(with("error", json!("data")), ["error"]);
    assert_eq!(with("timeout_buffer_seconds", json!(3_601)), ["timeout_buffer_seconds"]);
    assert_eq!(with("result", json!("/a~2")), ["result"]);
    assert_eq!(with("metrics", json!({"A": "/a", "b": "b"})), ["metrics.A", "metrics.b"]);
    assert_eq!(with("sign", json!({"secrets": []})), ["sign.secrets"]);
    assert_eq!(with("sign", json!({"secrets": ["whsec_AAAA", {"secret": "s"}]})), ["sign.secrets[0]"]);
    assert_eq!(with("connect_timeout_seconds", json!(0)), ["connect_timeout_seconds"]);
    assert_eq!(with("max_response_chars", json!(1_000_001)), ["max_response_chars"]);
    assert_eq!(with("circuit_breaker", json!({"cooldown_seconds": 0})), ["circuit_breaker.cooldown_seconds"]);
    for (field, value) in
        [("expect_status", json!(["1xx"])), ("methd", json!("GET")), ("method", json!("CONNECT"))]
    {
        assert_eq!(with(field, value), [""], "{field}");
    }
}

#[test]
fn arguments_stay_within_their_part_of_the_url() {
    let config = HttpConfig::parse(json!({"url": "https://example.com/a/{{args.v}}?q={{args.v}}"})).unwrap();
    let url = |value: &str| config.filled_url(&values(&json!({"v": value}))).map(String::from);
    assert_eq!(url("x y").unwrap(), "https://example.com/a/x%20y?q=x%20y");
    assert_eq!(
        url("@evil.com/?#").unwrap(),
        "https://example.com/a/%40evil.com%2F%3F%23?q=%40evil.com%2F%3F%23"
    );
    assert_eq!(url("..\\").unwrap(), "https://example.com/a/..%5C?q=..%5C");
    for dots in ["..", "."] {
        assert!(matches!(url(dots), Err(UrlError::Refused { .. })), "{dots}");
    }
    assert!(matches!(config.filled_url(&values(&json!({}))), Err(UrlError::Missing(_))));
    assert!(matches!(url(&"x".repeat(9_000)), Err(UrlError::Refused { .. })));
}

#[test]
fn arguments_may_name_labels_of_the_host() {
    let config = |url: &str| HttpConfig::parse(json!({"url": url})).unwrap();
    let filled = |url: &str, value: &str| {
        config(url)
            .filled_url(&values(&json!({"v": value})))
            .map(String::from)
            .map_err(|error| error.to_string())
    };
    assert!(!config("https://example.com/{{args.v}}").has_variable_host());
    for (url, value, expected) in [
        ("https://{{args.v}}/x", "a.example.com", "https://a.example.com/x"),
        ("https://{{args.v}}:8443", "a", "https://a:8443/"),
        ("https://{{args.v}}.api.example.com/{{args.v}}", "eu-1", "https://eu-1.api.example.com/eu-1"),
    ] {
        assert!(config(url).has_variable_host(), "{url}");
        assert_eq!(filled(url, value).as_deref(), Ok(expected));
    }
    for value in [
        "",
        ".",
        "a@b",
        "a:b@c",
        "a:99",
        "evil.com/",
        "evil.com#",
        "evil.com?",
        "a b",
        "a..b",
        "[::1]",
        "a\\b",
    ] {
        for url in ["https://{{args.v}}/x", "https://{{args.v}}.api.example.com/x"] {
            assert!(filled(url, value).is_err(), "{url} with {value:?}: {:?}", filled(url, value));
        }
    }
}

#[test]
fn the_content_type_decides_how_values_are_escaped() {
    let body = |content_type: &str, body: &str| {
        let config = json!({"url": "https://a.b/", "body": body, "headers": {"Content-Type": content_type}});
        let args = json!({"v": "a\"&<b"});
        HttpConfig::parse(&config).unwrap().filled_body(&values(&args)).unwrap().unwrap()
    };
    assert_eq!(body("application/problem+json; charset=utf-8", "[\"{{args.v}}\"]"), r#"["a\"&<b"]"#);
    for json in ["application/json", "text/json", "Text/JSON;charset=utf-8", "x/json", "model/gltf+json"] {
        assert_eq!(body(json, "[\"{{args.v}}\"]"), r#"["a\"&<b"]"#, "{json}");
    }
    assert_eq!(body("application/x-www-form-urlencoded", "v={{args.v}}"), "v=a%22%26%3Cb");
    assert_eq!(body("text/xml", "<v>{{args.v}}</v>"), "<v>a&quot;&amp;&lt;b</v>");
    assert_eq!(body("text/plain", "{{args.v}}"), "a\"&<b");
}

#[test]
fn signing_secrets_are_bytes_after_a_prefix() {
    assert_eq!(signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap().len(), 24);
    for refused in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_MfKQ", "whsec_!!!!", ""] {
        assert_eq!(signing_key(refused), Err(InvalidSigningSecret), "{refused}");
    }
}
