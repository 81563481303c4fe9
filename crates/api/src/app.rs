//! The application: every route in one table, and what surrounds them.
//!
//! A route refuses other methods with a problem document that lists those it takes; a path without a route is a problem
//! document too. Each method says what permission it asks for. Each worker thread of the server builds its own application; they share only the state.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::{App, Error, HttpResponse, middleware, web};
use sched_model::domain::identity::Permission as P;
use sched_runtime::health::{self, HealthState};
use sched_wire::{BASE_PATH, EVENTS_SOCKET};

use crate::error::ApiError;
use crate::guard;
use crate::permit::{Needs, at};
use crate::routes::{
    api_keys, apply, calendars, cancellations, dead_letters, dispatches, event_socket, events, executions,
    explanations, fleet, functions, jobs, logs, me, memberships, previews, queues, retries, secrets,
    switches, tenants, triggers, users,
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
        .service(at(EVENTS_SOCKET, "GET").get(P::RunsRead, event_socket::open))
        .configure(|config| health::configure(config, health))
        .default_service(web::to(no_such_path))
        .wrap(middleware::from_fn(guard::around))
}

fn api() -> actix_web::Scope {
    web::scope(BASE_PATH)
        .service(at("/me", "GET").get(Needs::Identity, me::get))
        .service(
            at("/api-keys", "GET, POST")
                .get(P::KeysRead, api_keys::list)
                .post(P::KeysWrite, api_keys::create),
        )
        .service(at("/api-keys/{key}", "DELETE").delete(P::KeysWrite, api_keys::revoke))
        .service(
            at("/tenants", "GET, POST")
                .get(P::SystemOperate, tenants::list)
                .post(P::SystemOperate, tenants::create),
        )
        .service(
            at("/users", "GET, POST")
                .get(P::SystemOperate, users::list)
                .post(P::SystemOperate, users::create),
        )
        .service(at("/users/{email}/activate", "POST").post(P::SystemOperate, users::activate))
        .service(at("/users/{email}/deactivate", "POST").post(P::SystemOperate, users::deactivate))
        .service(at("/memberships", "GET").get(P::MembersRead, memberships::list))
        .service(
            at("/memberships/{email}", "PUT, DELETE")
                .put(P::MembersWrite, memberships::put)
                .delete(P::MembersWrite, memberships::delete),
        )
        .service(at("/jobs", "GET, POST").get(P::JobsRead, jobs::list).post(P::JobsWrite, jobs::create))
        .service(at("/jobs/{job}", "GET").get(P::JobsRead, jobs::get))
        .service(at("/jobs/{job}/trigger", "POST").post(P::JobsTrigger, triggers::trigger))
        .service(at("/jobs/{job}/preview", "GET").get(P::JobsRead, previews::of_job))
        .service(at("/jobs/{job}/explain", "GET").get(P::JobsRead, explanations::of_job))
        .service(at("/jobs/{job}/pause", "POST").post(P::JobsOperate, switches::pause))
        .service(at("/jobs/{job}/resume", "POST").post(P::JobsOperate, switches::resume))
        .service(at("/jobs/{job}/enable", "POST").post(P::JobsOperate, switches::enable))
        .service(at("/jobs/{job}/disable", "POST").post(P::JobsOperate, switches::disable))
        .service(at("/jobs/{job}/cancel", "POST").post(P::RunsOperate, cancellations::of_job))
        .service(at("/schedules/preview", "POST").post(P::JobsRead, previews::of_schedule))
        .service(at("/apply", "POST").post(P::JobsWrite, apply::apply))
        .service(at("/calendars", "GET").get(P::JobsRead, calendars::list))
        .service(
            at("/calendars/{name}", "GET, PUT, DELETE")
                .get(P::JobsRead, calendars::get)
                .put(P::JobsWrite, calendars::put)
                .delete(P::JobsWrite, calendars::delete),
        )
        .service(at("/queues", "GET").get(P::QueuesRead, queues::list))
        .service(
            at("/queues/{name}", "GET, PUT").get(P::QueuesRead, queues::get).put(P::QueuesWrite, queues::put),
        )
        .service(at("/secrets", "GET").get(P::SecretsRead, secrets::list))
        .service(
            at("/secrets/{name}", "PUT, DELETE")
                .put(P::SecretsWrite, secrets::put)
                .delete(P::SecretsWrite, secrets::delete),
        )
        .service(at("/secret-keys/rotate", "POST").post(P::SystemOperate, secrets::rotate))
        .service(at("/task-functions", "GET").get(P::JobsRead, functions::list))
        .service(at("/dispatches", "GET").get(P::RunsRead, dispatches::list))
        .service(at("/dispatches/{id}", "GET").get(P::RunsRead, dispatches::get))
        .service(at("/dispatches/{id}/explain", "GET").get(P::RunsRead, explanations::of_dispatch))
        .service(at("/dispatches/{id}/cancel", "POST").post(P::RunsOperate, cancellations::dispatch))
        .service(at("/dispatches/{id}/retry", "POST").post(P::RunsOperate, retries::dispatch))
        .service(at("/dispatches/{id}/logs", "GET").get(P::RunsRead, logs::of_dispatch))
        .service(at("/dead-letters", "GET").get(P::RunsRead, dead_letters::list))
        .service(at("/dead-letters/retry", "POST").post(P::RunsOperate, dead_letters::retry_many))
        .service(at("/dead-letters/discard", "POST").post(P::RunsOperate, dead_letters::discard_many))
        .service(at("/dead-letters/{id}", "GET").get(P::RunsRead, dead_letters::get))
        .service(at("/dead-letters/{id}/retry", "POST").post(P::RunsOperate, retries::dead_letter))
        .service(at("/dead-letters/{id}/discard", "POST").post(P::RunsOperate, dead_letters::discard))
        .service(at("/executions", "GET").get(P::RunsRead, executions::list))
        .service(at("/executions/{id}", "GET").get(P::RunsRead, executions::get))
        .service(at("/executions/{id}/output", "GET").get(P::RunsRead, executions::output))
        .service(at("/events", "GET").get(P::RunsRead, events::list))
        .service(at("/events/stream", "GET").get(P::RunsRead, events::stream))
        .service(at("/workers", "GET").get(P::FleetRead, fleet::workers))
        .service(at("/scheduler-instances", "GET").get(P::FleetRead, fleet::scheduler_instances))
        .service(at("/scheduler-instances/leader/step-down", "POST").post(P::SystemOperate, fleet::step_down))
        .service(at("/status", "GET").get(P::JobsRead, fleet::status))
}

async fn no_such_path() -> Result<HttpResponse, ApiError> {
    Err(ApiError::NoSuchPath)
}
