//! Builds the request of one attempt from its configuration: fills in templates, resolves secrets,
//! signs.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use http::{Method, Request};
use http_body_util::Full;
use hyper::body::Bytes;
use sched_model::domain::handler_config::{
    FieldError, Form, HttpConfig, NO_CONTROL, RunContext, Signing, Template, TemplateValues, TextOrSecret,
    UpstreamValues, UrlError, signing_key,
};
use url::Url;
use uuid::Uuid;

use super::super::{ErrorClass, Execution, MissingSecret};
use super::sign::signatures;

const AGENT: &str = concat!("sched/", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(super) struct PreparedRequest {
    pub(super) tenant: Uuid,
    pub(super) url: Url,
    /// Scheme, host and port: the key of connections and circuits.
    pub(super) endpoint: String,
    /// The host comes from the arguments, so the operator must list it.
    pub(super) must_be_listed: bool,
    pub(super) request: Request<Full<Bytes>>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("handler_config is not valid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Config(Vec<FieldError>),
    #[error(transparent)]
    Secret(#[from] MissingSecret),
    #[error("the secret {name:?} cannot be used: {reason}")]
    UnusableSecret { name: String, reason: String },
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{field}: {reason}")]
    Arguments { field: String, reason: String },
    #[error(
        "timeout_buffer_seconds ({buffer} s) leaves nothing of the time-out of the attempt ({timeout:?})"
    )]
    Buffer { buffer: u32, timeout: Duration },
    #[error("failed to build the request")]
    Http(#[from] http::Error),
}

impl RequestError {
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::Config(_)
            | Self::Secret(_)
            | Self::UnusableSecret { .. }
            | Self::Buffer { .. }
            | Self::Http(_) => ErrorClass::InvalidConfig,
            Self::Url(_) | Self::Arguments { .. } => ErrorClass::InvalidArgs,
        }
    }
}

/// `now` is the database's clock.
pub(super) fn prepare(
    config: &HttpConfig,
    execution: &Execution,
    now: DateTime<Utc>,
) -> Result<PreparedRequest, RequestError> {
    let texts = ContextTexts::of(execution);
    let run_id = execution.run_id.to_string();
    let fire_time = execution.fire_time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let upstream_run = execution.upstream.as_ref().map(|upstream| upstream.run_id.to_string());
    let values = TemplateValues {
        upstream: execution.upstream.as_deref().map(|upstream| UpstreamValues {
            run_id: upstream_run.as_deref().unwrap_or_default(),
            job: &upstream.job,
            status: upstream.status,
            result: upstream.result.as_ref(),
        }),
        args: &execution.args,
        job_name: &execution.job_name,
        run_id: &run_id,
        attempt: execution.attempt,
        fire_time: &fire_time,
        idempotency_key: &execution.idempotency_key,
        context: texts.context(config, execution)?,
    };
    let url = config.filled_url(&values)?;
    let body = config
        .filled_body(&values)
        .map_err(|reason| RequestError::Arguments { field: "body".into(), reason })?;

    let mut headers = standard_headers(execution, &url)?;
    if body.is_some() && config.lacks_content_type() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &config.headers {
        headers.insert(
            HeaderName::from_bytes(name.as_bytes()).map_err(http::Error::from)?,
            header(name, value, execution, &values)?,
        );
    }
    let body = body.unwrap_or_default();
    if let Some(signing) = &config.sign {
        sign(&mut headers, signing, execution, (&run_id, now.timestamp(), body.as_bytes()))?;
    }

    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let method = Method::from_bytes(config.method.as_str().as_bytes()).map_err(http::Error::from)?;
    let mut request = Request::builder().method(method).uri(path).body(Full::new(Bytes::from(body)))?;
    *request.headers_mut() = headers;
    Ok(PreparedRequest {
        tenant: execution.tenant_id,
        endpoint: url.origin().ascii_serialization(),
        must_be_listed: config.has_variable_host(),
        url,
        request,
    })
}

/// Texts of ids that a template may use.
struct ContextTexts {
    attempt_id: String,
    tenant_id: String,
    project_id: Option<String>,
}

impl ContextTexts {
    fn of(execution: &Execution) -> Self {
        Self {
            attempt_id: execution.attempt_id.to_string(),
            tenant_id: execution.tenant_id.to_string(),
            project_id: execution.project_id.map(|id| id.to_string()),
        }
    }

    fn context<'a>(
        &'a self,
        config: &HttpConfig,
        execution: &'a Execution,
    ) -> Result<RunContext<'a>, RequestError> {
        let (timeout, buffer) = (execution.timeout, config.timeout_buffer_seconds);
        let announced = timeout.checked_sub(Duration::from_secs(buffer.into()));
        let announced = announced.filter(|left| buffer == 0 || left.as_secs() > 0);
        let details = execution.details.as_deref();
        Ok(RunContext {
            attempt_id: &self.attempt_id,
            timeout_seconds: announced.ok_or(RequestError::Buffer { buffer, timeout })?.as_secs(),
            tenant_id: &self.tenant_id,
            tenant_slug: details.map(|details| details.tenant.as_str()),
            project_id: self.project_id.as_deref(),
            project_name: details.and_then(|details| details.project.as_deref()),
            queue: details.map(|details| details.queue.as_str()),
            trigger: execution.trigger,
            trigger_user: details.and_then(|details| details.user.as_deref()),
            schedule: details.and_then(|details| details.schedule.as_deref()),
        })
    }
}

/// The clock of the database: its time at the claim plus the time since. The worker's wall clock is
/// never used.
pub(super) fn database_time(execution: &Execution, since_claim: Duration) -> DateTime<Utc> {
    let claimed = execution.fire_time + TimeDelta::milliseconds(execution.lateness_ms);
    claimed + TimeDelta::from_std(since_claim).unwrap_or_default()
}

/// A function may override the first three.
fn standard_headers(execution: &Execution, url: &Url) -> Result<HeaderMap, RequestError> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(http::Error::from);
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert("idempotency-key", value(&execution.idempotency_key)?);
    // A small compressed response can expand to fill all memory.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let host = url.host_str().unwrap_or_default();
    headers
        .insert(HOST, value(&url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))?);
    if let Some(parent) = &execution.traceparent {
        headers.insert("traceparent", value(parent)?);
    }
    Ok(headers)
}

fn header(
    name: &str,
    value: &TextOrSecret,
    execution: &Execution,
    values: &TemplateValues<'_>,
) -> Result<HeaderValue, RequestError> {
    let refused = |reason: String| match value.secret() {
        Some(secret) => RequestError::UnusableSecret { name: secret.to_owned(), reason },
        None => RequestError::Arguments { field: format!("headers.{name}"), reason },
    };
    let text = match value {
        TextOrSecret::Text(text) => {
            let template = Template::parse(text).map_err(|error| refused(error.to_string()))?;
            template.render(values, Form::Plain).map_err(|error| refused(error.to_string()))?
        }
        TextOrSecret::Secret(_) => execution.secrets.resolve(value)?.to_owned(),
    };
    let mut header =
        HeaderValue::from_str(&text).or_else(|_not_ascii| HeaderValue::from_bytes(text.as_bytes()));
    if let Ok(header) = &mut header {
        header.set_sensitive(value.secret().is_some());
    }
    header.map_err(|_control_characters| refused(NO_CONTROL.to_owned()))
}

fn sign(
    headers: &mut HeaderMap,
    signing: &Signing,
    execution: &Execution,
    (id, timestamp, body): (&str, i64, &[u8]),
) -> Result<(), RequestError> {
    let mut keys = Vec::new();
    for (position, secret) in signing.secrets.iter().enumerate() {
        let key = signing_key(execution.secrets.resolve(secret)?).map_err(|error| {
            let name = secret.secret().map_or_else(|| format!("sign.secrets[{position}]"), str::to_owned);
            RequestError::UnusableSecret { name, reason: error.to_string() }
        })?;
        keys.push(key);
    }
    let signature = signatures(&keys, id, timestamp, body).map_err(|error| RequestError::UnusableSecret {
        name: "sign.secrets".into(),
        reason: error.to_string(),
    })?;
    for (name, text) in
        [("webhook-id", id), ("webhook-timestamp", &timestamp.to_string()), ("webhook-signature", &signature)]
    {
        headers
            .insert(HeaderName::from_static(name), HeaderValue::from_str(text).map_err(http::Error::from)?);
    }
    Ok(())
}
