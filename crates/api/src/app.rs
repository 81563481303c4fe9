//! The application: every route of the table, with the middleware around it.
//!
//! An unknown path and a known path with another method return problem documents. Each serving
//! thread builds its own application; they share only the state.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::{App, Error, HttpResponse, web};
use sched_runtime::health_endpoint::{self, HealthState};
use sched_wire::{BASE_PATH, DETAILED_HEALTH};

use crate::error::ApiError;
use crate::http::middleware;
use crate::routes;
use crate::routes::table::{pages, socket, table};
use crate::state::ApiState;

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
    pages()
        .into_iter()
        .fold(App::new().app_data(state).service(api()).service(socket()), App::service)
        .route(DETAILED_HEALTH, web::get().to(routes::operations::health::detailed))
        .configure(|config| health_endpoint::configure_without_root(config, health))
        .default_service(web::to(no_such_path))
        .wrap(actix_web::middleware::from_fn(middleware::around))
}

fn api() -> actix_web::Scope {
    table().into_iter().fold(web::scope(BASE_PATH), actix_web::Scope::service)
}

async fn no_such_path() -> Result<HttpResponse, ApiError> {
    Err(ApiError::NoSuchPath)
}
