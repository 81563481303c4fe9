//! One tenant: show, change and delete it, and its use of quotas. Operators set the quotas.

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, web};
use sched_model::domain::identity::check_display_name;
use sched_model::domain::ids::TenantId;
use sched_model::identity::tenants::{self, Deletion, TenantPatch, TenantRecord};
use sched_model::{Conn, dispatching::quotas, identity::audit};
use sched_wire::Usage;

use crate::convert::identity;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::Body;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::etag::tag;
use crate::routes::named_resource::{can_be_there, no_such, refused};
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, State};

const KIND: &str = "tenant";

/// `GET /tenants/{slug}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    slug: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &slug)?;
    let found = state
        .read_installation(&identity, "get_tenant", async |conn: &mut Conn| found(conn, &slug).await)
        .await?;
    let etag = (ETAG, tag(found.updated_at));
    Ok(HttpResponse::Ok().insert_header(etag).json(identity::tenant(found)))
}

/// `PATCH /tenants/{slug}`
pub(crate) async fn patch(call: Call, slug: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &slug)?;
    let (expected, by) = (call.expected()?, &call.by);
    let patch: sched_wire::TenantPatch =
        field_error::read(body.required()?, "").map_err(|one| ApiError::Refused(vec![one]))?;
    let quotas = identity::quotas(&patch.quotas);
    let name = patch.name.as_deref();
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
    let written = call
        .write_installation("patch_tenant", async |conn: &mut Conn| {
            let (before, after) = tenants::patch(conn, &slug, &patch, expected)
                .await
                .map_err(|error| refused(error, KIND, &slug))?;
            if before != after {
                audit::write(conn, &[people::of_changed_tenant(&before, &after, by)]).await?;
                tracing::info!(tenant.id = %after.id, tenant.slug = after.slug, "tenant changed");
            }
            let etag = tag(after.updated_at);
            Ok::<_, ApiError>((Reply::ok(&identity::tenant(after))?.etag(etag), ()))
        })
        .await?;
    Ok(written.response)
}

/// `DELETE /tenants/{slug}`
pub(crate) async fn delete(call: Call, slug: web::Path<String>) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &slug)?;
    let (expected, by, own) = (call.expected()?, &call.by, call.tenant());
    let in_use = |why: String| {
        let message = format!("the {KIND} {:?} {why}", slug.as_str());
        Err(ApiError::Refused(vec![FieldError { reason: Reason::InUse, pointer: String::new(), message }]))
    };
    let written = call.write_installation("delete_tenant", async |conn: &mut Conn| {
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
        call.state.identities.forget_tenant(tenant);
        tracing::info!(tenant.id = %tenant, tenant.slug = slug.as_str(), "tenant deleted");
    }
    Ok(written.response)
}

/// `GET /usage`
pub(crate) async fn own_usage(state: State, identity: Identity) -> Answer<Usage> {
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
pub(crate) async fn usage_of(state: State, identity: Identity, slug: web::Path<String>) -> Answer<Usage> {
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
    let (quotas, usage) = quotas::usage(conn, tenant).await?;
    Ok(identity::usage(slug, quotas, usage))
}

pub(in crate::routes) async fn shown(conn: &mut Conn, slug: &str) -> Result<(Reply, ()), ApiError> {
    let tenant = found(conn, slug).await?;
    let etag = tag(tenant.updated_at);
    Ok((Reply::ok(&identity::tenant(tenant))?.etag(etag), ()))
}

pub(in crate::routes) async fn found(conn: &mut Conn, slug: &str) -> Result<TenantRecord, ApiError> {
    tenants::find(conn, slug).await?.ok_or_else(|| no_such(KIND, slug))
}
