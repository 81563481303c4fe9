//! Evaluates a response: success or error class, the kept text, and the wait before a retry.

use std::time::Duration;

use sched_model::domain::handler_config::HttpConfig;
use serde_json::{Map, Value, json};

use super::super::storable;
use super::super::{CapturedOutput, ErrorClass, Outcome, Report};
use super::exchange::Response;

/// Longest response from which values are picked, in bytes.
const MAX_PICKED_FROM: usize = 1024 * 1024;
/// Longest kept error text of a server.
const MAX_ERROR_CHARS: usize = 500;
/// A connection can be reused if its response was read to the end.
const MIN_READ: usize = 64 * 1024;

pub(super) fn bytes_to_read(config: &HttpConfig) -> usize {
    // A character has at most four bytes.
    let kept = usize::try_from(config.max_response_chars).unwrap_or(usize::MAX).saturating_mul(4);
    kept.max(if config.picks() || config.picks_error() { MAX_PICKED_FROM } else { MIN_READ })
}

/// The same request may succeed later.
pub(super) fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

pub(super) fn evaluate(config: &HttpConfig, response: &Response) -> Report {
    let mut report = if config.expects(response.status) {
        match pick(config, response) {
            Ok(picked) => Report {
                metrics: picked.get("metrics").cloned(),
                result: Some(result(response, picked)),
                ..Report::ended(Outcome::Succeeded, None)
            },
            Err(reason) => Report {
                result: Some(result(response, Map::new())),
                ..Report::failed(ErrorClass::ResponseInvalid, &reason)
            },
        }
    } else {
        let class =
            if may_pass(response.status) { ErrorClass::ErrorResponse } else { ErrorClass::RequestRejected };
        let hint = if (300..400).contains(&response.status) { "; redirects are not followed" } else { "" };
        let reason = error_text(config, response).map(|text| format!(": {text}")).unwrap_or_default();
        Report {
            result: Some(result(response, Map::new())),
            retry_after: retry_after(config, response),
            ..Report::failed(class, &format!("the server answered {}{hint}{reason}", shown(response.status)))
        }
    };
    report.stdout = captured_body(config, response);
    report
}

fn shown(status: u16) -> String {
    http::StatusCode::from_u16(status).map_or_else(|_unknown| status.to_string(), |status| status.to_string())
}

fn result(response: &Response, picked: Map<String, Value>) -> Value {
    let mut result = Map::from_iter([("status".to_owned(), json!(response.status))]);
    result.extend(picked);
    Value::Object(result)
}

/// The text of the error that the server reports, if the response has it at the configured place.
fn error_text(config: &HttpConfig, response: &Response) -> Option<String> {
    let pointer = config.error.as_deref()?;
    let is_whole = response.encoding.is_none() && !response.is_cut;
    let body: Value = is_whole.then(|| serde_json::from_slice(&response.body).ok()).flatten()?;
    let text = match body.pointer(pointer)? {
        Value::Null => return None,
        Value::String(text) => storable::text(text.as_bytes()),
        other => storable::json(other.clone()).to_string(),
    };
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let text: String = plain.take(MAX_ERROR_CHARS).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Under `result` and `metrics`.
fn pick(config: &HttpConfig, response: &Response) -> Result<Map<String, Value>, String> {
    let mut picked = Map::new();
    if !config.picks() {
        return Ok(picked);
    }
    if let Some(encoding) = &response.encoding {
        return Err(format!(
            "the response is compressed ({}), although the request did not accept compression",
            brief(encoding)
        ));
    }
    if response.is_cut {
        return Err(format!(
            "the response is longer than {} bytes, so no value was picked from it",
            bytes_to_read(config)
        ));
    }
    let body: Value = serde_json::from_slice(&response.body)
        .map_err(|error| format!("the response is not JSON: {error}"))?;
    let at = |pointer: &str| {
        body.pointer(pointer).ok_or_else(|| format!("the response has no value at {pointer:?}"))
    };
    if let Some(pointer) = &config.result {
        picked.insert("result".into(), storable::json(at(pointer)?.clone()));
    }
    let mut metrics = Map::new();
    for (name, pointer) in &config.metrics {
        let value = at(pointer)?;
        if !value.is_number() {
            return Err(format!("the response has no number at {pointer:?}"));
        }
        metrics.insert(name.clone(), value.clone());
    }
    if !metrics.is_empty() {
        picked.insert("metrics".into(), Value::Object(metrics));
    }
    Ok(picked)
}

/// The count of dropped bytes marks a cut.
pub(super) fn captured_body(config: &HttpConfig, response: &Response) -> CapturedOutput {
    let read = u64::try_from(response.body.len()).unwrap_or(u64::MAX);
    let total_bytes = response.announced.unwrap_or(0).max(read + u64::from(response.is_cut));
    if let Some(encoding) = &response.encoding {
        let head = format!("({} of {total_bytes} bytes, not decompressed)\n", brief(encoding));
        return CapturedOutput { head, tail: String::new(), total_bytes, dropped_bytes: total_bytes };
    }
    let text = storable::text(&response.body);
    let limit = usize::try_from(config.max_response_chars).unwrap_or(usize::MAX);
    let (head, is_short) = match text.char_indices().nth(limit) {
        Some((end, _)) => (text.get(..end).unwrap_or_default().to_owned(), true),
        None => (text, false),
    };
    let is_whole = !is_short && !response.is_cut && read == total_bytes;
    let kept_bytes = u64::try_from(head.len()).unwrap_or(u64::MAX);
    let dropped_bytes = if is_whole { 0 } else { total_bytes.saturating_sub(kept_bytes).max(1) };
    CapturedOutput { head, tail: String::new(), total_bytes, dropped_bytes }
}

fn brief(word: &str) -> String {
    word.chars().filter(char::is_ascii_graphic).take(20).collect()
}

/// The wait that the server requests: seconds, or a time by the server's own clock.
fn retry_after(config: &HttpConfig, response: &Response) -> Option<Duration> {
    let wanted = response.retry_after.as_deref()?;
    let wait = if wanted.bytes().all(|byte| byte.is_ascii_digit()) && !wanted.is_empty() {
        // A number with too many digits is still a long wait.
        Duration::from_secs(wanted.parse().unwrap_or(u64::MAX))
    } else {
        let until = httpdate::parse_http_date(wanted).ok()?;
        let now = httpdate::parse_http_date(response.date.as_deref()?).ok()?;
        // A past time requests no wait.
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(Duration::from_secs(config.retry_after_max_seconds.into()))).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(fields: Value) -> HttpConfig {
        let mut config = json!({"url": "https://example.com/"});
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        HttpConfig::parse(config).unwrap()
    }

    fn response(status: u16, body: &str) -> Response {
        Response {
            status,
            retry_after: None,
            date: None,
            encoding: None,
            body: body.as_bytes().to_vec(),
            announced: None,
            is_cut: false,
        }
    }

    #[test]
    fn status_determines_the_error_class() {
        for (status, class) in [
            (200, None),
            (204, None),
            (301, Some(ErrorClass::RequestRejected)),
            (400, Some(ErrorClass::RequestRejected)),
            (404, Some(ErrorClass::RequestRejected)),
            (408, Some(ErrorClass::ErrorResponse)),
            (425, Some(ErrorClass::ErrorResponse)),
            (429, Some(ErrorClass::ErrorResponse)),
            (500, Some(ErrorClass::ErrorResponse)),
            (599, Some(ErrorClass::ErrorResponse)),
        ] {
            let report = evaluate(&config(json!({})), &response(status, ""));
            assert_eq!(report.error_class, class, "{status}");
            assert_eq!(report.result, Some(json!({"status": status})));
        }
        let report = evaluate(&config(json!({"expect_status": ["3xx"]})), &response(302, ""));
        assert_eq!(report.outcome, Outcome::Succeeded);
        assert_eq!(
            evaluate(&config(json!({"expect_status": ["3xx"]})), &response(200, "")).outcome,
            Outcome::Failed
        );
    }

    #[test]
    fn error_text_comes_from_the_response() {
        let wants = config(json!({"error": "/error/message"}));
        let message = |response: &Response| evaluate(&wants, response).error_message.unwrap();
        let told = response(422, r#"{"error": {"message": "no such customer:\n7\u0000"}}"#);
        let expected = "the server answered 422 Unprocessable Entity: no such customer: 7\u{FFFD}";
        assert_eq!(message(&told), expected);
        assert_eq!(
            message(&response(503, r#"{"error": {"message": {"code": 7}}}"#)),
            r#"the server answered 503 Service Unavailable: {"code":7}"#
        );
        for silent in ["", "{", "{}", r#"{"error": {"message": null}}"#, r#"{"error": {"message": " "}}"#] {
            assert_eq!(message(&response(400, silent)), "the server answered 400 Bad Request", "{silent}");
        }
        let long = json!({"error": {"message": "x".repeat(10_000)}}).to_string();
        assert!(message(&response(400, &long)).len() < 600);
        let cut = Response { is_cut: true, ..response(400, r#"{"error": {"message": "x"}}"#) };
        assert_eq!(message(&cut), "the server answered 400 Bad Request");
    }

    #[test]
    fn missing_picked_value_makes_the_response_invalid() {
        let wants = config(json!({"result": "/data", "metrics": {"rows": "/n", "share": "/data/x"}}));
        let report = evaluate(&wants, &response(200, r#"{"data": {"x": 0.5, "s": "a\u0000"}, "n": 7}"#));
        let expected = json!({
            "status": 200, "result": {"x": 0.5, "s": "a\u{FFFD}"}, "metrics": {"rows": 7, "share": 0.5},
        });
        assert_eq!(report.metrics, Some(expected["metrics"].clone()));
        assert_eq!(report.result, Some(expected));
        for body in ["", "{", r#"{"data": {"x": "0.5"}, "n": 7}"#, r#"{"data": {"x": 1}}"#] {
            let report = evaluate(&wants, &response(200, body));
            assert_eq!(report.error_class, Some(ErrorClass::ResponseInvalid), "{body}");
        }
        let cut = Response { is_cut: true, ..response(200, "{}") };
        assert_eq!(evaluate(&wants, &cut).error_class, Some(ErrorClass::ResponseInvalid));
        let packed = Response { encoding: Some("gzip".into()), ..response(200, "{}") };
        assert_eq!(evaluate(&wants, &packed).error_class, Some(ErrorClass::ResponseInvalid));
    }

    #[test]
    fn long_response_is_cut_at_a_character() {
        let short = config(json!({"max_response_chars": 3}));
        let kept = |response: &Response| {
            let kept = super::captured_body(&short, response);
            (kept.head, kept.total_bytes, kept.dropped_bytes)
        };
        assert_eq!(kept(&response(200, "a€b")), ("a€b".to_owned(), 5, 0));
        assert_eq!(kept(&response(200, "a€bc")), ("a€b".to_owned(), 6, 1));
        let unread = Response { is_cut: true, announced: Some(1_000), ..response(200, "a€b") };
        assert_eq!(kept(&unread), ("a€b".to_owned(), 1_000, 995));
        let unknown = Response { is_cut: true, ..response(200, "abc") };
        assert_eq!(kept(&unknown), ("abc".to_owned(), 4, 1));
        let nul = kept(&response(200, "\0\0"));
        assert_eq!((nul.0.as_str(), nul.2), ("\u{FFFD}\u{FFFD}", 0));
    }

    #[test]
    fn retry_after_uses_the_clock_of_the_server() {
        let date = Some("Sun, 06 Nov 1994 08:49:00 GMT".to_owned());
        let wait = |retry_after: &str, date: &Option<String>| {
            let response =
                Response { retry_after: Some(retry_after.into()), date: date.clone(), ..response(503, "") };
            evaluate(&config(json!({"retry_after_max_seconds": 600})), &response)
                .retry_after
                .map(|wait| wait.as_secs())
        };
        assert_eq!(wait("120", &None), Some(120));
        assert_eq!(wait("99999999999999999999999", &None), Some(600));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", &date), Some(37));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", &None), None, "no clock to compare with");
        for nothing in ["0", "-5", "soon", "", "Sun, 06 Nov 1994 08:48:37 GMT", "1.5"] {
            assert_eq!(wait(nothing, &date), None, "{nothing}");
        }
        let ignores = config(json!({"retry_after_max_seconds": 0}));
        let response = Response { retry_after: Some("5".into()), ..response(429, "") };
        assert_eq!(evaluate(&ignores, &response).retry_after, None);
    }
}
