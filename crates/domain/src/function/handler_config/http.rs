//! `handler_config` of an `http` function: the request, and the parts of the response that count.
//!
//! Parses, validates and fills in templates; the worker sends the request. Pure.

mod headers;
mod signing;
mod status;
mod target;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

#[cfg(test)]
use super::template::RunContext;
use super::template::{Form, Template, TemplateValues};
use super::{FieldError, Mistakes, TextOrSecret};
use crate::attempt::metric;

pub use headers::{NO_CONTROL, is_header_value};
pub use signing::{InvalidSigningSecret, Signing, signing_key};
pub use status::{NoStatus, StatusRange};
pub use target::UrlError;

pub const DEFAULT_MAX_RESPONSE_CHARS: u32 = 10_000;
/// Every slot holds them in memory.
pub const MAX_RESPONSE_CHARS_LIMIT: u32 = 1_000_000;
pub const DEFAULT_CONNECT_TIMEOUT_SECONDS: u32 = 10;
pub const MAX_CONNECT_TIMEOUT_SECONDS: u32 = 120;
pub const DEFAULT_RETRY_AFTER_MAX_SECONDS: u32 = 3_600;
pub const RETRY_AFTER_MAX_SECONDS_LIMIT: u32 = 86_400;
pub const MAX_TIMEOUT_BUFFER_SECONDS: u32 = 3_600;
/// Larger bodies belong into the arguments.
const MAX_BODY_BYTES: usize = 256 * 1024;
const MAX_POINTER_BYTES: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    #[serde(default)]
    pub method: HttpMethod,
    /// A template in its host, path and query.
    pub url: String,
    /// Templates, or secrets by their names.
    #[serde(default)]
    pub headers: BTreeMap<String, TextOrSecret>,
    /// A template. Absent: the arguments as JSON for methods that create or change, else no body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(default = "default_expect_status")]
    pub expect_status: Vec<StatusRange>,
    /// For name resolution, TCP and TLS together.
    #[serde(default = "default_connect_timeout_seconds")]
    pub connect_timeout_seconds: u32,
    #[serde(default = "default_max_response_chars")]
    pub max_response_chars: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// JSON pointer to the text of an error in an unexpected response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time that the limit announced to the server is shorter than the time-out of the attempt.
    #[serde(default)]
    pub timeout_buffer_seconds: u32,
    /// JSON pointers to numbers, by the name of the metric.
    #[serde(default)]
    pub metrics: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<Signing>,
    /// Longest honoured `Retry-After`; 0 ignores the header.
    #[serde(default = "default_retry_after_max_seconds")]
    pub retry_after_max_seconds: u32,
    /// When the worker pauses calls to an endpoint.
    #[serde(default)]
    pub circuit_breaker: CircuitBreaker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    Get,
    Head,
    #[default]
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl HttpMethod {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }

    fn may_have_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch | Self::Delete)
    }

    fn sends_arguments(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// When the worker pauses calls to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CircuitBreaker {
    /// Consecutive failures that open the circuit; 0 turns the breaker off.
    pub failures: u32,
    pub cooldown_seconds: u32,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self { failures: 10, cooldown_seconds: 30 }
    }
}

fn default_expect_status() -> Vec<StatusRange> {
    vec![StatusRange::success()]
}

fn default_connect_timeout_seconds() -> u32 {
    DEFAULT_CONNECT_TIMEOUT_SECONDS
}

fn default_max_response_chars() -> u32 {
    DEFAULT_MAX_RESPONSE_CHARS
}

fn default_retry_after_max_seconds() -> u32 {
    DEFAULT_RETRY_AFTER_MAX_SECONDS
}

impl HttpConfig {
    /// Reads any serde format. Returns every mistake; a wrong shape is one with an empty field.
    pub fn parse<'de, D: Deserializer<'de>>(from: D) -> Result<Self, Vec<FieldError>> {
        let config = Self::deserialize(from)
            .map_err(|error| vec![FieldError { field: String::new(), message: error.to_string() }])?;
        config.validate()?;
        Ok(config)
    }

    /// Returns every mistake, not only the first.
    pub fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut mistakes = Mistakes::default();
        if let Err(wrong) = target::Target::parse(&self.url) {
            mistakes.add("url", wrong);
        }
        headers::check(&self.headers, &mut mistakes);
        let signing = self.sign.iter().flat_map(|signing| &signing.secrets);
        mistakes.check_secrets("headers", self.headers.values().chain(signing));
        self.check_body(&mut mistakes);
        self.check_response(&mut mistakes);
        if let Some(signing) = &self.sign {
            signing::check(signing, &mut mistakes);
        }
        self.check_limits(&mut mistakes);
        mistakes.finish()
    }

    fn check_body(&self, mistakes: &mut Mistakes) {
        let content_type = headers::text(&self.headers, "content-type");
        if content_type.is_some_and(|value| value.text().is_none_or(|text| text.contains("{{"))) {
            mistakes.add("headers.content-type", "must be written down: it decides how values are escaped");
        }
        let Some(body) = &self.body else {
            if self.method.sends_arguments() && self.body_form() != Form::Json {
                mistakes.add("body", "is required with a content-type other than JSON");
            }
            return;
        };
        if !self.method.may_have_body() {
            mistakes.add("body", format!("cannot be sent with {}", self.method.as_str()));
        }
        if body.len() > MAX_BODY_BYTES {
            mistakes.add(
                "body",
                format!("is longer than {MAX_BODY_BYTES} bytes; pass large values in the job's args"),
            );
        }
        match Template::parse(body) {
            Err(error) => mistakes.add("body", error.to_string()),
            Ok(template) if self.body_form() == Form::Json => {
                let sample = template.sample(Form::Json);
                if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&sample) {
                    let message = format!("is not valid JSON, as its content-type requires: {error}");
                    mistakes.add("body", message);
                }
            }
            Ok(_) => {}
        }
    }

    fn check_response(&self, mistakes: &mut Mistakes) {
        if self.expect_status.is_empty() {
            mistakes.add("expect_status", "must name at least one status, else no run could succeed");
        }
        for (field, pointer) in [("result", &self.result), ("error", &self.error)] {
            if pointer.as_deref().is_some_and(|pointer| !is_pointer(pointer)) {
                mistakes.add(field, NO_POINTER);
            }
        }
        if self.metrics.len() > metric::MOST {
            mistakes.add("metrics", format!("must be at most {}", metric::MOST));
        }
        for (name, pointer) in &self.metrics {
            if !metric::is_name(name) {
                mistakes
                    .add(format!("metrics.{name}"), "is not a name: up to 64 small letters, digits and _");
            } else if !is_pointer(pointer) {
                mistakes.add(format!("metrics.{name}"), NO_POINTER);
            }
        }
    }

    fn check_limits(&self, mistakes: &mut Mistakes) {
        let mut range = |field: &str, value: u32, low: u32, high: u32| {
            if !(low..=high).contains(&value) {
                mistakes.add(field, format!("must be {low} to {high}"));
            }
        };
        range("connect_timeout_seconds", self.connect_timeout_seconds, 1, MAX_CONNECT_TIMEOUT_SECONDS);
        range("max_response_chars", self.max_response_chars, 0, MAX_RESPONSE_CHARS_LIMIT);
        range("retry_after_max_seconds", self.retry_after_max_seconds, 0, RETRY_AFTER_MAX_SECONDS_LIMIT);
        range("timeout_buffer_seconds", self.timeout_buffer_seconds, 0, MAX_TIMEOUT_BUFFER_SECONDS);
        range("circuit_breaker.failures", self.circuit_breaker.failures, 0, 1_000);
        range("circuit_breaker.cooldown_seconds", self.circuit_breaker.cooldown_seconds, 1, 3_600);
    }

    /// By its content type.
    fn body_form(&self) -> Form {
        let content_type = headers::text(&self.headers, "content-type").and_then(TextOrSecret::text);
        let Some(content_type) = content_type else { return Form::Json };
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/x-www-form-urlencoded" => Form::Percent,
            json if json.ends_with("/json") || json.ends_with("+json") => Form::Json,
            xml if xml.ends_with("/xml") || xml.ends_with("+xml") => Form::Xml,
            _ => Form::Plain,
        }
    }

    /// The content type is then JSON.
    #[must_use]
    pub fn lacks_content_type(&self) -> bool {
        headers::text(&self.headers, "content-type").is_none()
    }

    #[must_use]
    pub fn picks(&self) -> bool {
        self.result.is_some() || !self.metrics.is_empty()
    }

    /// Whether the worker reads more of an unexpected response than it stores.
    #[must_use]
    pub fn picks_error(&self) -> bool {
        self.error.is_some()
    }

    /// Whether the arguments of the run choose the host.
    #[must_use]
    pub fn has_variable_host(&self) -> bool {
        target::Target::parse(&self.url).is_ok_and(|target| target.has_variable_host())
    }

    #[must_use]
    pub fn expects(&self, status: u16) -> bool {
        self.expect_status.iter().any(|range| range.contains(status))
    }

    /// Fails if a value is missing or would change the target.
    pub fn filled_url(&self, values: &TemplateValues<'_>) -> Result<Url, UrlError> {
        target::Target::parse(&self.url).map_err(|reason| UrlError::Refused { reason })?.url(values)
    }

    /// `None` if the request has no body.
    pub fn filled_body(&self, values: &TemplateValues<'_>) -> Result<Option<String>, String> {
        match &self.body {
            Some(body) => {
                let template = Template::parse(body).map_err(|error| error.to_string())?;
                template.render(values, self.body_form()).map(Some).map_err(|error| error.to_string())
            }
            None => Ok(self.method.sends_arguments().then(|| values.args.to_string())),
        }
    }
}

const NO_POINTER: &str = "is not a JSON pointer, such as /data/0/id: empty, or beginning with /";

fn is_pointer(text: &str) -> bool {
    let mut rest = text.split('~');
    rest.next();
    (text.is_empty() || text.starts_with('/'))
        && text.len() <= MAX_POINTER_BYTES
        && rest.all(|after| after.starts_with(['0', '1']))
}

#[cfg(test)]
mod tests;
