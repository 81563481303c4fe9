//! Serves the document, and a page to read it.
//!
//! Both reveal nothing of the installation, so they need no key. The page is Swagger UI from this
//! binary: it loads nothing from other hosts, and a key that a user types into it stays in the
//! browser.

use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use actix_web::{HttpResponse, web};
use sched_runtime::health_endpoint;
use sched_wire::{BASE_PATH, DETAILED_HEALTH, Index, PROBLEMS};
use utoipa_swagger_ui::Config;

use crate::error::ApiError;
use crate::routes::table;

/// Path of the page of the documentation.
const PAGE: &str = "/api/docs";

pub(crate) const DOCUMENT: &str = "/api/v1/openapi.json";

/// The page loads only its own files and calls this API. Its library writes styles into elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static TEXT: LazyLock<String> = LazyLock::new(|| super::document(&table::table()).to_string());

/// `GET /` and `GET /api/v1`
pub(crate) async fn index() -> web::Json<Index> {
    web::Json(Index {
        service: crate::PROGRAM.name.to_owned(),
        version: crate::PROGRAM.version.to_owned(),
        api: BASE_PATH.to_owned(),
        documentation: PAGE.to_owned(),
        openapi: DOCUMENT.to_owned(),
        problems: PROBLEMS.to_owned(),
        endpoints: health_endpoint::PATHS
            .iter()
            .copied()
            .chain([DETAILED_HEALTH])
            .map(str::to_owned)
            .collect(),
    })
}

/// `GET /openapi.json`
pub(crate) async fn json() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(TEXT.as_str())
}

/// `GET /api/docs`
pub(crate) async fn page() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((LOCATION, format!("{PAGE}/"))).finish()
}

/// `GET /api/docs/{file}`
pub(crate) async fn swagger(file: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let config =
        std::sync::Arc::new(Config::from(DOCUMENT).try_it_out_enabled(true).persist_authorization(false));
    let found = utoipa_swagger_ui::serve(&file, config).map_err(|_unreadable| ApiError::Broken)?;
    let found = found.ok_or(ApiError::NoSuchPath)?;
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_TYPE, found.content_type));
    response.insert_header((CONTENT_SECURITY_POLICY, POLICY));
    response.insert_header((CACHE_CONTROL, "no-cache"));
    Ok(response.body(found.bytes.into_owned()))
}
