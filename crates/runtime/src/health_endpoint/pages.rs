//! The six pages. All have the same security headers, and no cache may store them. Headers are set
//! per response, because a middleware would affect other routes.

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, HttpResponseBuilder, web};
use serde_json::{Value, json};

use super::{HealthState, Liveness, Readiness};

pub const PATHS: &[&str] = &["/health", "/health/live", "/health/ready", "/status", "/metrics"];

pub fn configure(config: &mut web::ServiceConfig, state: HealthState) {
    configure_without_root(config, state.clone());
    mount(config, "/", state, root);
}

pub fn configure_without_root(config: &mut web::ServiceConfig, state: HealthState) {
    mount(config, "/health", state.clone(), health);
    mount(config, "/health/live", state.clone(), live);
    mount(config, "/health/ready", state.clone(), ready);
    mount(config, "/status", state.clone(), status);
    mount(config, "/metrics", state, metrics_text);
}

fn mount(
    config: &mut web::ServiceConfig,
    path: &str,
    state: HealthState,
    page: fn(&HealthState) -> HttpResponse,
) {
    let handler = move || {
        let state = state.clone();
        async move { page(&state) }
    };
    config.service(
        web::resource(path)
            .route(web::get().to(handler.clone()))
            .route(web::head().to(handler))
            .default_service(web::to(method_not_allowed)),
    );
}

pub(super) async fn not_found() -> HttpResponse {
    let paths: Vec<&str> = std::iter::once("/").chain(PATHS.iter().copied()).collect();
    respond(StatusCode::NOT_FOUND).json(json!({"error": "no such page", "endpoints": paths}))
}

async fn method_not_allowed() -> HttpResponse {
    let mut response = respond(StatusCode::METHOD_NOT_ALLOWED);
    response.insert_header((header::ALLOW, "GET, HEAD")).json(json!({"error": "use GET"}))
}

fn root(state: &HealthState) -> HttpResponse {
    respond(StatusCode::OK).json(json!({
        "service": state.program.name,
        "version": state.program.version,
        "endpoints": PATHS,
    }))
}

fn health(state: &HealthState) -> HttpResponse {
    let (live, ready) = (state.source.live(), state.source.ready());
    let reason = match (&live, &ready) {
        (Liveness::Stuck(reason), _) | (Liveness::Alive, Readiness::NotReady(reason)) => Some(reason.clone()),
        (Liveness::Alive, Readiness::Ready) => None,
    };
    verdict(
        reason,
        json!({
            "service": state.program.name,
            "live": live == Liveness::Alive,
            "ready": ready == Readiness::Ready,
            "uptime_seconds": uptime(state).as_secs(),
        }),
    )
}

fn live(state: &HealthState) -> HttpResponse {
    let reason = match state.source.live() {
        Liveness::Alive => None,
        Liveness::Stuck(reason) => Some(reason),
    };
    verdict(reason, json!({}))
}

fn ready(state: &HealthState) -> HttpResponse {
    let reason = match state.source.ready() {
        Readiness::Ready => None,
        Readiness::NotReady(reason) => Some(reason),
    };
    verdict(reason, json!({}))
}

fn status(state: &HealthState) -> HttpResponse {
    respond(StatusCode::OK).json(json!({
        "service": state.program.name,
        "uptime_seconds": uptime(state).as_secs(),
        "status": state.source.status(),
    }))
}

fn metrics_text(state: &HealthState) -> HttpResponse {
    metrics::gauge!("sched_process_uptime_seconds").set(uptime(state).as_secs_f64());
    respond(StatusCode::OK)
        .content_type("text/plain; version=0.0.4; charset=utf-8")
        .body(state.metrics.render())
}

/// 200 and `ok`, or 503 and the reason.
fn verdict(reason: Option<String>, mut body: Value) -> HttpResponse {
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if let Some(body) = body.as_object_mut() {
        let word = if reason.is_none() { "ok" } else { "unavailable" };
        body.insert("status".to_owned(), word.into());
        if let Some(reason) = reason {
            body.insert("reason".to_owned(), reason.into());
        }
    }
    respond(status).json(body)
}

fn uptime(state: &HealthState) -> std::time::Duration {
    crate::monotonic_clock::monotonic().saturating_duration_since(state.started)
}

fn respond(status: StatusCode) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header((CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((X_FRAME_OPTIONS, "DENY"));
    response
}
