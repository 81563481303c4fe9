//! One tenant: showing it, changing its name and quotas, pausing it, and how much of its quotas it uses.
//!
//! What a tenant may use is said by who operates the installation; a tenant sees its own.

use actix_web::http::header::ETAG;
use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::definitions::pauses::{Target, Turn};
use sched_model::domain::identity::check_display_name;
use sched_model::domain::ids::TenantId;
use sched_model::identity::tenants::{self, Deletion, TenantPatch, TenantRecord};
use sched_model::{Conn, connection::notify, dispatching::quotas, identity::audit};
use sched_wire::Usage;

use crate::convert::identity;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::extract::{Body, NoParameters, Query, expected};
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::{Switch, can_be_there, no_such, refused, tag};
use crate::routes::operations::auditing::people;
use crate::routes::runs::cancellations::reason;
use crate::routes::{Answer, Id, State};

/// What it is, in messages.
const KIND: &str = "tenant";

/// `GET /tenants/{slug}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    slug: web::Path<String>,
    _: Query<NoParameters>,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &slug)?;
    let found = state
        .read_installation(&identity, "get_tenant", async |conn: &mut Conn| found(conn, &slug).await)
        .await?;
    let etag = (ETAG, tag(found.updated_at));
    Ok(HttpResponse::Ok().insert_header(etag).json(identity::tenant(found)))
}

/// `PATCH /tenants/{slug}`
pub(crate) async fn patch(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    slug: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &slug)?;
    let (expected, by) = (expected(&http)?, &request.0);
    let asked: sched_wire::TenantPatch =
        field_error::read(body.required()?, "").map_err(|one| ApiError::Refused(vec![one]))?;
    let quotas = identity::quotas(&asked.quotas);
    let name = asked.name.as_deref();
    let wrong_name = name.and_then(|name| check_display_name(name).err());
    let quotas = match (quotas, wrong_name) {
        (Ok(quotas), None) => quotas,
        (quotas, wrong_name) => {
            let mut mistakes = quotas.err().unwrap_or_default();
            mistakes.extend(wrong_name.map(|message| FieldError::invalid("/name", message)));
            return Err(ApiError::Refused(mistakes));
        }
    };
    let patch = TenantPatch { name, quotas: &quotas };
    let written = state
        .write_installation(&identity, by, "patch_tenant", async |conn: &mut Conn| {
            let (before, after) = tenants::patch(conn, &slug, &patch, expected)
                .await
                .map_err(|error| refused(error, KIND, &slug))?;
            if before != after {
                audit::write(conn, &[people::of_changed_tenant(&before, &after, by)]).await?;
                tracing::info!(tenant.id = %after.id, tenant.slug = after.slug, "Changed a tenant.");
            }
            let etag = tag(after.updated_at);
            Ok::<_, ApiError>((Reply::ok(&identity::tenant(after))?.etag(etag), ()))
        })
        .await?;
    Ok(written.response)
}

/// `DELETE /tenants/{slug}`
pub(crate) async fn delete(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    slug: web::Path<String>,
    _: Query<NoParameters>,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &slug)?;
    let (expected, by, own) = (expected(&http)?, &request.0, identity.tenant());
    let in_use = |why: String| {
        let message = format!("the {KIND} {:?} {why}", slug.as_str());
        Err(ApiError::Refused(vec![FieldError { reason: Reason::InUse, pointer: String::new(), message }]))
    };
    let written = state
        .write_installation(&identity, by, "delete_tenant", async |conn: &mut Conn| {
            let deleted = tenants::delete(conn, &slug, expected).await;
            match deleted.map_err(|error| refused(error, KIND, &slug))? {
                Deletion::Done(tenant) if tenant.id == own => {
                    in_use("is the one that you act in; do it from another".to_owned())
                }
                Deletion::Done(tenant) => {
                    audit::write(conn, &[people::of_deleted_tenant(&tenant, by)]).await?;
                    Ok((Reply::no_content(), tenant.id))
                }
                Deletion::HasJobs => in_use(
                    "has jobs; delete them first, or its projects with their jobs; to stop them all and keep them, pause it".to_owned(),
                ),
                Deletion::HasWork => in_use("has work that is not over; cancel it, or wait for it".to_owned()),
                Deletion::HasHistory { most } => in_use(format!(
                    "has more than {most} dispatches of the past; pause it until retention has removed them"
                )),
            }
        })
        .await?;
    if let Some(tenant) = written.extra {
        state.identities.forget_tenant(tenant);
        tracing::info!(tenant.id = %tenant, tenant.slug = slug.as_str(), "Deleted a tenant.");
    }
    Ok(written.response)
}

/// `POST /tenants/{slug}/pause`
pub(crate) async fn pause(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    slug: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let reason = reason(body)?;
    turn(&state, &identity, &request.0, &http, &slug, Turn::Pause(reason.as_deref())).await
}

/// `POST /tenants/{slug}/resume`
pub(crate) async fn resume(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    slug: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    turn(&state, &identity, &request.0, &http, &slug, Turn::Resume).await
}

async fn turn(
    state: &State,
    identity: &Identity,
    by: &Actor,
    http: &HttpRequest,
    slug: &str,
    turn: Turn<'_>,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, slug)?;
    let expected = expected(http)?;
    let written = state
        .write_installation(identity, by, "turn_tenant", async |conn: &mut Conn| {
            let tenant = found(conn, slug).await?.id;
            Switch { tenant, target: Target::Tenant, expected }.turn(conn, turn, None, by).await?;
            let after = found(conn, slug).await?;
            let etag = tag(after.updated_at);
            Ok::<_, ApiError>((Reply::ok(&identity::tenant(after))?.etag(etag), ()))
        })
        .await?;
    if written.extra.is_some() {
        state.hint("workers", async |conn: &mut Conn| notify::dispatches_wait_again(conn).await).await;
    }
    Ok(written.response)
}

/// `GET /usage`
pub(crate) async fn own_usage(state: State, identity: Identity, _: Query<NoParameters>) -> Answer<Usage> {
    let tenant = identity.tenant();
    let usage = state
        .read(&identity, "get_usage", async |conn: &mut Conn| {
            let slug = tenants::by_id(conn, tenant).await?.slug;
            usage(conn, tenant, slug).await
        })
        .await?;
    Ok(web::Json(usage))
}

/// `GET /tenants/{slug}/usage`
pub(crate) async fn usage_of(
    state: State,
    identity: Identity,
    slug: web::Path<String>,
    _: Query<NoParameters>,
) -> Answer<Usage> {
    can_be_there(KIND, &slug)?;
    let usage = state
        .read_installation(&identity, "get_usage", async |conn: &mut Conn| {
            let tenant = found(conn, &slug).await?;
            usage(conn, tenant.id, tenant.slug).await
        })
        .await?;
    Ok(web::Json(usage))
}

async fn usage(conn: &mut Conn, tenant: TenantId, slug: String) -> Result<Usage, ApiError> {
    let (quotas, used) = quotas::used(conn, tenant).await?;
    Ok(identity::usage(slug, quotas, used))
}

async fn found(conn: &mut Conn, slug: &str) -> Result<TenantRecord, ApiError> {
    tenants::find(conn, slug).await?.ok_or_else(|| no_such(KIND, slug))
}
