//! Tenants, for who operates the installation: listing and making them.

use actix_web::{HttpResponse, web};
use sched_model::db::users::{MemberError, put_member};
use sched_model::db::{Conn, DbError, audit, tenants, transact};
use sched_model::domain::identity::Role;
use sched_wire::{Page, PageQuery, Tenant, TenantSpec};

use super::memberships::refused as member_refused;
use super::{Answer, Id, State, auditing};
use crate::dto::identity::{check_tenant, tenant};
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::mistake::{self, Mistake, Reason};
use crate::page::Limit;

/// `GET /tenants`
pub(crate) async fn list(state: State, Query(query): Query<PageQuery>) -> Answer<Page<Tenant>> {
    let limit = Limit::new(query.limit)?;
    let mut conn = state.database.conn().await?;
    let rows = tenants::list(&mut conn, query.cursor.as_deref(), limit.rows()).await?;
    Ok(web::Json(limit.page(rows, |tenant| tenant.slug.clone(), tenant)))
}

/// `POST /tenants`
pub(crate) async fn create(
    state: State,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let spec: TenantSpec =
        mistake::read(body.required()?, "").map_err(|mistake| ApiError::Refused(vec![mistake]))?;
    let mistakes = check_tenant(&spec);
    if !mistakes.is_empty() {
        return Err(ApiError::Refused(mistakes));
    }
    let name = spec.name.as_deref().unwrap_or(&spec.slug);
    let mut conn = state.database.conn().await?;
    let made = transact(&mut conn, "create_tenant", async |conn: &mut Conn| {
        let made = tenants::create(conn, &spec.slug, name).await?;
        let mut entries = vec![auditing::of_tenant(&made, &request.0)];
        if let Some(owner) = &spec.owner {
            let saved = put_member(conn, made.id, owner, Role::Owner).await?;
            entries.push(auditing::of_member(made.id, saved.before, &saved.member, &request.0));
        }
        audit::write(conn, &entries).await?;
        Ok::<_, MemberError>(made)
    })
    .await
    .map_err(|error| refused(error, &spec))?;
    tracing::info!(tenant.id = %made.id, tenant.slug = made.slug, "Made a tenant.");
    Ok(HttpResponse::Created().json(tenant(made)))
}

fn refused(error: MemberError, spec: &TenantSpec) -> ApiError {
    match error {
        MemberError::Database(DbError::Constraint { name, .. }) if name == "tenants_slug_key" => {
            ApiError::Refused(vec![Mistake {
                reason: Reason::AlreadyExists,
                pointer: "/slug".to_owned(),
                message: format!("a tenant {:?} exists already", spec.slug),
            }])
        }
        MemberError::NoSuchUser(email) => {
            ApiError::Refused(vec![Mistake::invalid("/owner", format!("there is no user {email:?}"))])
        }
        error => member_refused(error),
    }
}
