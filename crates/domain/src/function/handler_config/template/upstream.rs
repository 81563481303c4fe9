//! Values of the run that a dependent run follows. Pure.

use serde_json::Value;

pub(super) const UPSTREAM_NAMES: &str =
    "upstream.run_id, upstream.job, upstream.status, upstream.result, upstream.result.<path>";

/// A value of [`UpstreamValues`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UpstreamName {
    RunId,
    Job,
    Status,
    /// Path within the result; empty for all of it.
    Result(Vec<String>),
}

/// The run that a dependent run follows.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamValues<'a> {
    pub run_id: &'a str,
    pub job: &'a str,
    pub status: &'a str,
    pub result: Option<&'a Value>,
}

impl UpstreamValues<'_> {
    pub(super) fn value(&self, name: &UpstreamName) -> Value {
        match name {
            UpstreamName::RunId => self.run_id.into(),
            UpstreamName::Job => self.job.into(),
            UpstreamName::Status => self.status.into(),
            UpstreamName::Result(path) => {
                self.result.and_then(|result| at_path(result, path)).cloned().unwrap_or_default()
            }
        }
    }
}

impl UpstreamName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "run_id" => Some(Self::RunId),
            "job" => Some(Self::Job),
            "status" => Some(Self::Status),
            "result" => Some(Self::Result(Vec::new())),
            _ => {
                let path: Vec<String> = text.strip_prefix("result.")?.split('.').map(str::to_owned).collect();
                path.iter().all(|step| is_step(step)).then_some(Self::Result(path))
            }
        }
    }
}

pub(super) fn is_step(step: &str) -> bool {
    !step.is_empty() && !step.chars().any(|c| c.is_whitespace() || c.is_control() || "{}'\"".contains(c))
}

pub(super) fn at_path<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Array(items) => step.parse::<usize>().ok().and_then(|position| items.get(position)),
        other => other.get(step),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Form, Template, TemplateValues};
    use super::*;

    #[test]
    fn upstream_values_fill_a_template_and_may_be_missing() {
        let (args, result) = (json!({}), json!({"rows": 3, "files": ["a"]}));
        let upstream =
            UpstreamValues { run_id: "u-1", job: "load", status: "succeeded", result: Some(&result) };
        let filled = |upstream, text: &str, form| {
            let values = TemplateValues {
                upstream,
                args: &args,
                job_name: "",
                run_id: "",
                attempt: 1,
                fire_time: "",
                idempotency_key: "",
                context: super::super::RunContext::default(),
            };
            Template::parse(text).unwrap().render(&values, form).unwrap()
        };
        let line = "{{upstream.run_id}} {{upstream.job}} {{upstream.status}} {{upstream.result.files.0}}";
        assert_eq!(filled(Some(upstream), line, Form::Plain), "u-1 load succeeded a");
        assert_eq!(filled(None, line, Form::Plain), "   ");
        let body = r#"{"rows": {{upstream.result.rows}}, "none": {{upstream.result.x}}}"#;
        assert_eq!(filled(Some(upstream), body, Form::Json), r#"{"rows": 3, "none": null}"#);
        for text in ["{{upstream}}", "{{upstream.x}}", "{{upstream.result.}}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
