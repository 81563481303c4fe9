//! Tenants: list and create them, for operators.

use actix_web::{HttpResponse, web};
use sched_model::domain::identity::Role;
use sched_model::identity::users::{MemberError, put_member};
use sched_model::{
    Conn, DbError,
    identity::{audit, tenants},
};
use sched_wire::{Page, PageQuery, Tenant, TenantSpec};

use super::memberships::refused as member_refused;
use crate::convert::identity::{check_tenant, tenant};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, State};

/// `GET /tenants`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Tenant>> {
    let pages = Pages::of(&"tenants", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read_installation(&identity, "list_tenants", async |conn: &mut Conn| {
            Ok(tenants::list(conn, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |tenant| tenant.slug.clone(), tenant)))
}

/// `POST /tenants`
pub(crate) async fn create(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let spec: TenantSpec =
        field_error::read(body.required()?, "").map_err(|mistake| ApiError::Refused(vec![mistake]))?;
    let mistakes = check_tenant(&spec);
    if !mistakes.is_empty() {
        return Err(ApiError::Refused(mistakes));
    }
    let name = spec.name.as_deref().unwrap_or(&spec.slug);
    let refused = |error| refused(error, &spec);
    let written = call
        .write_installation("create_tenant", async |conn: &mut Conn| {
            let made =
                tenants::create(conn, &spec.slug, name).await.map_err(|error| refused(error.into()))?;
            let mut entries = vec![people::of_tenant(&made, &call.by)];
            if let Some(owner) = &spec.owner {
                let saved = put_member(conn, made.id, owner, Role::Owner).await.map_err(refused)?;
                entries.push(people::of_member(made.id, saved.before, &saved.member, &call.by));
            }
            audit::write(conn, &entries).await?;
            let id = made.id;
            Ok::<_, ApiError>((Reply::created(&tenant(made))?, id))
        })
        .await?;
    if let Some(id) = written.extra {
        tracing::info!(tenant.id = %id, tenant.slug = spec.slug, "tenant created");
    }
    Ok(written.response)
}

fn refused(error: MemberError, spec: &TenantSpec) -> ApiError {
    match error {
        MemberError::Database(DbError::Constraint { name, .. }) if name == "tenants_slug_key" => {
            ApiError::Refused(vec![FieldError {
                reason: Reason::AlreadyExists,
                pointer: "/slug".to_owned(),
                message: format!("a tenant {:?} exists already", spec.slug),
            }])
        }
        MemberError::NoSuchUser(email) => {
            ApiError::Refused(vec![FieldError::invalid("/owner", format!("there is no user {email:?}"))])
        }
        error => member_refused(error),
    }
}
