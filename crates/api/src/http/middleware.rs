//! The middleware of every request: id, caller, time limit, headers of the answer, log line and
//! metrics.
//!
//! Only this module logs errors of requests: internal causes at `warn` or `error`, refusals at
//! `debug`. A request that exceeds its time limit is dropped where it waits. Its database
//! connection is discarded, so the server rolls back its open transaction.

use std::time::{Duration, Instant};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CROSS_ORIGIN_RESOURCE_POLICY, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, USER_AGENT, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpResponse, web};
use sched_model::domain::identity::Permission;
use sched_model::domain::trace::TraceContext;
use sched_runtime::traces::{self, Kind, SpanContext, Traces};
use sched_runtime::{exit, monotonic_clock};
use sched_wire::{BASE_PATH, EVENTS_SOCKET, Problem, REQUEST_ID};
use tracing::{Instrument, Span, field};
use uuid::Uuid;

use crate::error::ApiError;
use crate::http::client_address;
use crate::http::idempotency::IdempotentRequest;
use crate::http::route::{self, Needs};
use crate::identity::{RequestActor, RequestContext};
use crate::openapi;
use crate::routes::operations::event_socket;
use crate::state::ApiState;
use crate::{
    http::{idempotency, origin},
    identity,
};

/// Time limit of a request: the default limit of a statement.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
const LONGEST_ID: usize = 100;

#[derive(Debug)]
struct RequestId(String);

pub(crate) async fn around(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let facts = Facts::of(&request);
    let span = facts.span.clone();
    let served = serve(request, next, &facts).instrument(span.clone());
    let served = tokio::time::timeout(REQUEST_WITHIN, served).await;
    let _entered = span.enter();
    let Ok(served) = served else {
        let response = facts.refuse(&ApiError::TimedOut);
        // The timeout has consumed the request, so the answer must travel as an error.
        return Err(InternalError::from_response(ApiError::TimedOut, facts.finish(response)).into());
    };
    let (request, response) = served?.into_parts();
    let response = match response.error().and_then(Error::as_error::<ApiError>) {
        Some(error) => facts.refuse(error),
        None => response.map_into_boxed_body(),
    };
    let facts = facts.routed(request.match_pattern());
    Ok(ServiceResponse::new(request, facts.finish(response)))
}

async fn serve(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
    facts: &Facts,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if request.path() == EVENTS_SOCKET {
        event_socket::take_key(request.headers_mut());
    }
    match admitted(&request, facts).await {
        Ok(()) => Ok(next.call(request).await?.map_into_boxed_body()),
        Err(error) => Ok(request.error_response(error)),
    }
}

async fn admitted(request: &ServiceRequest, facts: &Facts) -> Result<(), ApiError> {
    let state = request.app_data::<web::Data<ApiState>>();
    let allowed = state.map(|state| state.allowed_hosts.as_slice()).unwrap_or_default();
    origin::check(request.method(), request.uri(), request.headers(), allowed)?;
    let is_local = client_address::is_local(request.peer_addr(), request.headers());
    let needs = needs(request.method(), request.path(), is_local);
    let (Some(needs), Some(state)) = (needs, state) else { return Ok(()) };
    let address = client_address::address(request.peer_addr(), request.headers(), &state.trusted_proxies);
    let context = RequestContext {
        id: facts.id.0.clone(),
        address: address.map(|address| address.to_string()),
        trace: facts.trace,
        is_by_command: is_by_command(request.headers()),
    };
    if needs == Needs::Nothing {
        request.extensions_mut().insert(context);
        return Ok(());
    }
    let identity = identity::authenticate(state, request.method(), request.headers(), address).await?;
    facts.span.record("tenant.id", field::display(identity.tenant()));
    route::allowed(needs, Some(&identity))?;
    let key = idempotency::key(request.method(), request.path(), request.headers())?;
    let once = key.map(|key| IdempotentRequest::new(identity.budget(), key, request.method(), request.uri()));
    let mut extensions = request.extensions_mut();
    extensions.insert(RequestActor(identity.signs(context, once)));
    extensions.insert(identity);
    Ok(())
}

/// The requirement of a path before routing. Every path of the API requires a known caller, except
/// for signing in. Pages that show more of the installation than its basic health require the
/// permission to see it, unless the request comes from this machine.
fn needs(method: &Method, path: &str, is_local: bool) -> Option<Needs> {
    let is_index = path == BASE_PATH && method.is_safe();
    if path == "/" || is_index || path == openapi::DOCUMENT || route::is_page(path) {
        return None;
    }
    if path == EVENTS_SOCKET {
        return Some(Needs::Identity);
    }
    let of_api = path.strip_prefix(BASE_PATH);
    if method == Method::POST && of_api == Some("/sessions") {
        return Some(Needs::Nothing);
    }
    if of_api.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Some(Needs::Identity);
    }
    // By exact name: a path in another encoding matches later, after it was decoded.
    let is_for_all = matches!(path, "/health" | "/health/live" | "/health/ready");
    (!is_local && !is_for_all).then_some(Needs::Permission(Permission::FleetRead))
}

/// Needed after the service has consumed the request.
struct Facts {
    id: RequestId,
    trace: TraceContext,
    /// The parent span that the request names.
    caller: Option<TraceContext>,
    span: Span,
    traces: Traces,
    method: String,
    path: String,
    route: Option<String>,
    started: Instant,
}

impl Facts {
    fn of(request: &ServiceRequest) -> Self {
        let (id, caller) = (id_of(request.headers()), caller_of(request.headers()));
        let trace = trace_of(caller);
        let state = request.app_data::<web::Data<ApiState>>();
        // Empty fields are recorded later.
        let span = tracing::info_span!(
            "request",
            trace_id = trace.trace_id(),
            span_id = trace.span_id(),
            request.id = id.0,
            http.method = %request.method(),
            http.route = field::Empty,
            http.status = field::Empty,
            tenant.id = field::Empty,
        );
        Self {
            id,
            trace,
            caller,
            span,
            traces: state.map(|state| state.traces.clone()).unwrap_or_default(),
            method: request.method().to_string(),
            path: request.path().to_owned(),
            route: None,
            started: monotonic_clock::monotonic(),
        }
    }

    fn routed(self, route: Option<String>) -> Self {
        Self { route, ..self }
    }

    fn refuse(&self, error: &ApiError) -> HttpResponse {
        let mut problem: Problem = error.problem();
        problem.request_id.clone_from(&self.id.0);
        let is_read = matches!(self.method.as_str(), "GET" | "HEAD");
        if let Some(detail) = error.detail_of_read().filter(|_| is_read) {
            detail.clone_into(&mut problem.detail);
        }
        problem.trace_id = self.trace.trace_id();
        problem.instance = Some(self.path.clone());
        let (code, cause) = (&problem.code, exit::describe(error));
        match error.kind().0 {
            StatusCode::INTERNAL_SERVER_ERROR => {
                tracing::error!(http.path = self.path, error = cause, "A request failed.");
            }
            status if status.is_server_error() => {
                tracing::warn!(problem.code = code, error = cause, "request failed");
            }
            _ => {
                tracing::debug!(problem.code = code, error = cause, "request refused");
            }
        }
        error.respond(&problem)
    }

    fn finish(&self, mut response: HttpResponse) -> HttpResponse {
        let headers = response.headers_mut();
        for (name, value) in &HEADERS {
            if !headers.contains_key(name) {
                headers.insert(name.clone(), HeaderValue::from_static(value));
            }
        }
        if let Ok(id) = HeaderValue::from_str(&self.id.0) {
            headers.insert(REQUEST_ID_HEADER.clone(), id);
        }
        self.record(response.status());
        response
    }

    fn record(&self, status: StatusCode) {
        let took = monotonic_clock::monotonic().saturating_duration_since(self.started);
        // Clients choose unknown paths: one label for all bounds the metric.
        let route = self.route.clone().unwrap_or_else(|| "none".to_owned());
        let (method, status) = (&self.method, status.as_u16());
        self.span.record("http.route", &route).record("http.status", status);
        let duration_ms = took.as_secs_f64() * 1000.0;
        tracing::debug!(http.path = self.path, http.duration_ms = duration_ms, "request served");
        let method = if self.route.is_some() { method.clone() } else { "any".to_owned() };
        metrics::histogram!("sched_api_request_seconds", "route" => route.clone(), "method" => method.clone())
            .record(took);
        metrics::counter!(
            "sched_api_requests_total", "route" => route, "method" => method, "status" => status.to_string()
        )
        .increment(1);
        // Periodic requests for health and metrics have no span.
        if self.path.starts_with(BASE_PATH) {
            let ((trace, span), is_sampled) = (self.trace.ids(), self.trace.is_sampled());
            self.traces.ended(SpanContext { trace, span, is_sampled }, took, || self.request_span(status));
        }
    }

    /// Has the names of OpenTelemetry's conventions for servers and those of the log.
    fn request_span(&self, status: u16) -> traces::Span {
        let mut attributes: Vec<(&'static str, traces::Value)> = vec![
            ("http.request.method", self.method.as_str().into()),
            ("http.response.status_code", i64::from(status).into()),
            ("request.id", self.id.0.as_str().into()),
        ];
        // An unrouted path could contain anything, so it is not sent.
        if let Some(route) = &self.route {
            attributes
                .extend([("http.route", route.as_str().into()), ("url.path", self.path.as_str().into())]);
        }
        let name = match &self.route {
            Some(route) => format!("{} {route}", self.method),
            None => "request".to_owned(),
        };
        // An error of the client is not a failure of the server.
        let failure = (status >= 500).then(|| format!("status {status}"));
        let parent = self.caller.map(|caller| caller.ids().1);
        traces::Span { parent, name, kind: Kind::Server, attributes, failure }
    }
}

static REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Defaults for every answer: it is not a page, and must not be stored.
static HEADERS: [(HeaderName, &str); 6] = [
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
];

/// The id of the client if it is safe for a log line, else a new one.
fn id_of(headers: &HeaderMap) -> RequestId {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_fit = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    RequestId(given.filter(is_fit).map_or_else(|| Uuid::new_v4().to_string(), str::to_owned))
}

fn is_by_command(headers: &HeaderMap) -> bool {
    let program = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    program.is_some_and(|program| program.starts_with("schedctl/"))
}

/// The parent span of the request (W3C `traceparent`).
fn caller_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut given = headers.get_all("traceparent");
    let given = given.next().filter(|_| given.next().is_none()).and_then(|value| value.to_str().ok());
    given.and_then(TraceContext::parse)
}

fn trace_of(caller: Option<TraceContext>) -> TraceContext {
    let random = Uuid::new_v4().as_u128();
    // Random as well, and different from the id of the trace.
    let span = Uuid::new_v4().as_u64_pair().1;
    match caller {
        Some(caller) => caller.child(span),
        None => TraceContext::begin(random, span),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HOST;
    use actix_web::test::{TestRequest, init_service, try_call_service};
    use actix_web::{App, middleware, web};

    use super::*;

    #[test]
    fn only_basic_health_is_public() {
        let (here, there) = (true, false);
        let fleet = Some(Needs::Permission(Permission::FleetRead));
        for (path, is_local, expected) in [
            ("/api/v1", there, None),
            ("/api/v1/jobs", here, Some(Needs::Identity)),
            ("/api/v1/", there, Some(Needs::Identity)),
            ("/ws/events", here, Some(Needs::Identity)),
            ("/api/v11", here, None),
            ("/api/v1/openapi.json", there, None),
            ("/api/v1/openapi.json/x", there, Some(Needs::Identity)),
            ("/api/docs", there, None),
            ("/api/docs/index.html", there, None),
            ("/api/docsx", there, fleet),
            ("/ui", there, None),
            ("/ui/jobs/1", there, None),
            ("/uix", there, fleet),
            ("/health", there, None),
            ("/health/ready", there, None),
            ("/health/detailed", here, None),
            ("/health/detailed", there, fleet),
            ("/metrics", here, None),
            ("/metrics", there, fleet),
            ("/status", there, fleet),
            ("/", there, None),
        ] {
            assert_eq!(needs(&Method::GET, path, is_local), expected, "{path} {is_local}");
        }
        for (method, path, expected) in [
            (Method::POST, "/api/v1/sessions", Some(Needs::Nothing)),
            (Method::GET, "/api/v1/sessions", Some(Needs::Identity)),
            (Method::POST, "/api/v1/sessions/", Some(Needs::Identity)),
            (Method::POST, "/api/v1", Some(Needs::Identity)),
            (Method::HEAD, "/api/v1", None),
            (Method::POST, "/api/v1/%73essions", Some(Needs::Identity)),
            (Method::DELETE, "/api/v1/sessions/current", Some(Needs::Identity)),
        ] {
            assert_eq!(needs(&method, path, here), expected, "{method} {path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_request_times_out() {
        let never = || async { std::future::pending::<HttpResponse>().await };
        let app = App::new().route("/", web::get().to(never)).wrap(middleware::from_fn(around));
        let service = init_service(app).await;
        let request =
            TestRequest::get().insert_header((HOST, "localhost")).insert_header((REQUEST_ID, "r-1"));
        let error = try_call_service(&service, request.to_request()).await.unwrap_err();
        let response = error.error_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers().get(REQUEST_ID).unwrap(), "r-1");
        assert_eq!(response.headers().get(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff");
        let body = response.into_body().try_into_bytes().unwrap();
        let problem: Problem = serde_json::from_slice(&body).unwrap();
        assert_eq!((problem.code.as_str(), problem.request_id.as_str()), ("timed_out", "r-1"));
        assert_eq!(problem.trace_id.len(), 32, "a request that names no trace begins one");
    }

    #[test]
    fn request_span_joins_the_given_trace() {
        let trace = |values: &[&str]| {
            let request = values
                .iter()
                .fold(TestRequest::get(), |request, value| request.append_header(("traceparent", *value)));
            trace_of(caller_of(request.to_http_request().headers()))
        };
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (one, two) = (trace(&[given]), trace(&[given]));
        assert_eq!(one.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert!(one.span_id() != two.span_id() && one.span_id() != "b7ad6b7169203331", "{one} {two}");
        for none in [&[][..], &[""], &[given, given]] {
            let (one, two) = (trace(none), trace(none));
            assert!(one.trace_id() != two.trace_id() && !one.to_string().contains("0af7"), "{one} {two}");
        }
    }
}
