//! The application: every route in one table, and what surrounds them.
//!
//! A route refuses other methods with a problem document that lists those it takes; a path without a route is a problem
//! document too. Each worker thread of the server builds its own application; they share only the state.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::{App, Error, HttpResponse, Resource, middleware, web};
use sched_runtime::health::{self, HealthState};
use sched_wire::BASE_PATH;

use crate::error::ApiError;
use crate::guard;
use crate::routes::{
    apply, calendars, cancellations, dead_letters, dispatches, executions, explanations, fleet, functions,
    jobs, logs, previews, queues, retries, secrets, switches, triggers,
};
use crate::state::ApiState;

/// Puts an application together.
pub(crate) fn build(
    state: web::Data<ApiState>,
    health: HealthState,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = Error,
        InitError = (),
    >,
> {
    App::new()
        .app_data(state)
        .service(api())
        .configure(|config| health::configure(config, health))
        .default_service(web::to(no_such_path))
        .wrap(middleware::from_fn(guard::around))
}

fn api() -> actix_web::Scope {
    web::scope(BASE_PATH)
        .service(
            at("/jobs", "GET, POST").route(web::get().to(jobs::list)).route(web::post().to(jobs::create)),
        )
        .service(at("/jobs/{job}", "GET").route(web::get().to(jobs::get)))
        .service(at("/jobs/{job}/trigger", "POST").route(web::post().to(triggers::trigger)))
        .service(at("/jobs/{job}/preview", "GET").route(web::get().to(previews::of_job)))
        .service(at("/jobs/{job}/explain", "GET").route(web::get().to(explanations::of_job)))
        .service(at("/jobs/{job}/pause", "POST").route(web::post().to(switches::pause)))
        .service(at("/jobs/{job}/resume", "POST").route(web::post().to(switches::resume)))
        .service(at("/jobs/{job}/enable", "POST").route(web::post().to(switches::enable)))
        .service(at("/jobs/{job}/disable", "POST").route(web::post().to(switches::disable)))
        .service(at("/jobs/{job}/cancel", "POST").route(web::post().to(cancellations::of_job)))
        .service(at("/schedules/preview", "POST").route(web::post().to(previews::of_schedule)))
        .service(at("/apply", "POST").route(web::post().to(apply::apply)))
        .service(at("/calendars", "GET").route(web::get().to(calendars::list)))
        .service(
            at("/calendars/{name}", "GET, PUT, DELETE")
                .route(web::get().to(calendars::get))
                .route(web::put().to(calendars::put))
                .route(web::delete().to(calendars::delete)),
        )
        .service(at("/queues", "GET").route(web::get().to(queues::list)))
        .service(
            at("/queues/{name}", "GET, PUT")
                .route(web::get().to(queues::get))
                .route(web::put().to(queues::put)),
        )
        .service(at("/secrets", "GET").route(web::get().to(secrets::list)))
        .service(
            at("/secrets/{name}", "PUT, DELETE")
                .route(web::put().to(secrets::put))
                .route(web::delete().to(secrets::delete)),
        )
        .service(at("/secret-keys/rotate", "POST").route(web::post().to(secrets::rotate)))
        .service(at("/task-functions", "GET").route(web::get().to(functions::list)))
        .service(at("/dispatches", "GET").route(web::get().to(dispatches::list)))
        .service(at("/dispatches/{id}", "GET").route(web::get().to(dispatches::get)))
        .service(at("/dispatches/{id}/explain", "GET").route(web::get().to(explanations::of_dispatch)))
        .service(at("/dispatches/{id}/cancel", "POST").route(web::post().to(cancellations::dispatch)))
        .service(at("/dispatches/{id}/retry", "POST").route(web::post().to(retries::dispatch)))
        .service(at("/dispatches/{id}/logs", "GET").route(web::get().to(logs::of_dispatch)))
        .service(at("/dead-letters", "GET").route(web::get().to(dead_letters::list)))
        .service(at("/dead-letters/retry", "POST").route(web::post().to(dead_letters::retry_many)))
        .service(at("/dead-letters/discard", "POST").route(web::post().to(dead_letters::discard_many)))
        .service(at("/dead-letters/{id}", "GET").route(web::get().to(dead_letters::get)))
        .service(at("/dead-letters/{id}/retry", "POST").route(web::post().to(retries::dead_letter)))
        .service(at("/dead-letters/{id}/discard", "POST").route(web::post().to(dead_letters::discard)))
        .service(at("/executions", "GET").route(web::get().to(executions::list)))
        .service(at("/executions/{id}", "GET").route(web::get().to(executions::get)))
        .service(at("/executions/{id}/output", "GET").route(web::get().to(executions::output)))
        .service(at("/workers", "GET").route(web::get().to(fleet::workers)))
        .service(at("/scheduler-instances", "GET").route(web::get().to(fleet::scheduler_instances)))
        .service(at("/scheduler-instances/leader/step-down", "POST").route(web::post().to(fleet::step_down)))
        .service(at("/status", "GET").route(web::get().to(fleet::status)))
}

/// A path that takes the methods of `allow`, for which routes are to follow.
fn at(path: &str, allow: &'static str) -> Resource {
    let refuse = move || async move { Err::<HttpResponse, _>(ApiError::MethodNotAllowed { allow }) };
    web::resource(path).default_service(web::to(refuse))
}

async fn no_such_path() -> Result<HttpResponse, ApiError> {
    Err(ApiError::NoSuchPath)
}
