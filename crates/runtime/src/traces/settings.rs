//! Settings of the trace collector: the variables of OpenTelemetry's specification about sending,
//! under their standard names, which platforms set for all programs. The values of headers are
//! secret.

use std::fmt;

use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::config::{Setting, Values};

/// The only supported protocol.
const PROTOCOL: &str = "http/protobuf";

pub const TRACES: &[Setting] = &[
    Setting::new(
        "otel-exporter-otlp-endpoint",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "URL",
        "Collector that traces are sent to, at v1/traces below this address (OTLP over HTTP, mostly port 4318); without it none are",
    )
    .secret_url(),
    Setting::new(
        "otel-exporter-otlp-traces-endpoint",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "URL",
        "The same as the whole address, which is used as it is and is the stronger one",
    )
    .secret_url(),
    Setting::new(
        "otel-exporter-otlp-headers",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "NAME=VALUE",
        "Headers that the collector is sent, separated by commas, values percent-encoded; nothing shows them",
    )
    .secret(),
    Setting::new(
        "otel-exporter-otlp-traces-headers",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "NAME=VALUE",
        "The same for traces alone, and the stronger ones",
    )
    .secret(),
    Setting::new(
        "otel-exporter-otlp-protocol",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "PROTOCOL",
        "How the collector is spoken to; http/protobuf is the only way",
    )
    .default(PROTOCOL),
    Setting::new(
        "otel-exporter-otlp-traces-protocol",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "PROTOCOL",
        "The same for traces alone, and the stronger one",
    ),
    Setting::new(
        "otel-traces-exporter",
        "OTEL_TRACES_EXPORTER",
        "EXPORTER",
        "otlp, or none to send no traces; none overrides the endpoints",
    )
    .default("otlp"),
    Setting::new(
        "otel-sdk-disabled",
        "OTEL_SDK_DISABLED",
        "BOOL",
        "Whether to send no traces, regardless of the endpoints",
    )
    .switch(),
    Setting::new(
        "otel-service-name",
        "OTEL_SERVICE_NAME",
        "NAME",
        "What traces call this process; the name of the program without it",
    ),
    Setting::new(
        "otel-resource-attributes",
        "OTEL_RESOURCE_ATTRIBUTES",
        "NAME=VALUE",
        "More attributes of this process in traces, separated by commas, values percent-encoded",
    ),
];

#[derive(Clone)]
pub struct TracesSettings {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) service: Option<String>,
    pub(super) attributes: Vec<(String, String)>,
}

impl fmt::Debug for TracesSettings {
    /// Omits the address and the headers, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracesSettings").field("service", &self.service).finish_non_exhaustive()
    }
}

impl TracesSettings {
    /// `None` if no collector is configured; the other settings do not matter then.
    pub fn read(values: &mut Values) -> Option<Self> {
        let base = endpoint(values, "otel-exporter-otlp-endpoint").map(below);
        let own = endpoint(values, "otel-exporter-otlp-traces-endpoint");
        let headers = strongest(values, "otel-exporter-otlp-traces-headers", "otel-exporter-otlp-headers");
        let protocol = strongest(values, "otel-exporter-otlp-traces-protocol", "otel-exporter-otlp-protocol");
        let exporter = values.string("otel-traces-exporter");
        let is_disabled = values.boolean("otel-sdk-disabled");
        let service = values.optional_string("otel-service-name");
        let attributes = values.optional_string("otel-resource-attributes");
        let url = own.or(base)?;
        if exporter == "none" || is_disabled {
            return None;
        }
        if exporter != "otlp" {
            values.mistake("otel-traces-exporter", "must be otlp or none");
        }
        if let Some((name, _)) = protocol.filter(|(_, protocol)| protocol != PROTOCOL) {
            let text = "must be http/protobuf, for which collectors mostly listen on port 4318; no other way is spoken. \
                        OTEL_TRACES_EXPORTER=none sends no traces at all";
            values.mistake(name, text);
        }
        let headers = headers.map_or_else(HeaderMap::new, |(name, text)| {
            self::headers(&text).unwrap_or_else(|fault| {
                values.mistake(name, fault);
                HeaderMap::new()
            })
        });
        let attributes = attributes.map(|text| pairs(&text)).unwrap_or_else(|| Ok(Vec::new()));
        let attributes = attributes.unwrap_or_else(|fault| {
            values.mistake("otel-resource-attributes", fault);
            Vec::new()
        });
        Some(Self { url, headers, service, attributes })
    }
}

fn strongest(values: &mut Values, own: &'static str, common: &'static str) -> Option<(&'static str, String)> {
    let own = values.optional_string(own).map(|text| (own, text));
    let common = values.optional_string(common).map(|text| (common, text));
    own.or(common)
}

fn endpoint(values: &mut Values, name: &str) -> Option<Url> {
    let text = values.optional_string(name)?;
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if url.is_none() {
        values.mistake(name, "must be an http:// or https:// address, for example http://127.0.0.1:4318");
    }
    url
}

fn below(mut base: Url) -> Url {
    let path = format!("{}/v1/traces", base.path().trim_end_matches('/'));
    base.set_path(&path);
    base
}

fn headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (number, (name, value)) in (1..).zip(pairs(text)?) {
        // The error omits name and value: after a colon in place of the first `=`, the text before
        // a later `=` contains the value.
        let name = HeaderName::try_from(&name).map_err(|_invalid| {
            format!("must have the name of a header before the first = of item {number}")
        })?;
        let mut value = HeaderValue::try_from(&value).map_err(|_invalid| {
            format!("must not have line breaks or control characters in the value of item {number}")
        })?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// `name=value,name=value`, values percent-encoded.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    const EXPECTED: &str = "must be name=value, several separated by commas, with values percent-encoded";
    let pair = |item: &str| {
        let (name, value) = item.split_once('=').ok_or(EXPECTED)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_invalid| EXPECTED)?;
        let name = name.trim();
        if name.is_empty() { Err(EXPECTED.to_owned()) } else { Ok((name.to_owned(), value.into_owned())) }
    };
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(pair).collect()
}
