//! Memberships: the roles of users in the tenant of the caller.
//!
//! Only existing users become members; operators create users. A tenant keeps its last owner.

use actix_web::{HttpResponse, web};
use sched_model::domain::identity::{Role, check_email};
use sched_model::identity::users::{self, Member, MemberError};
use sched_model::{Conn, identity::audit};
use sched_wire::{Membership, MembershipSpec, Page, PageQuery};

use crate::convert::identity::{membership, role};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::cursor::mark;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::named_resource::{can_be_there, no_such};
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, State};

/// `GET /memberships`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Membership>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"memberships", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read(&identity, "list_memberships", async |conn: &mut Conn| {
            Ok(users::members(conn, tenant, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |member| member.email.clone(), membership)))
}

/// A hash of the content, because memberships have no version.
fn version(role: Role, member: &Member) -> String {
    mark(&(member.user, role.as_str(), member.since))
}

/// `GET /memberships/{email}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    email: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    can_be_there("member", &email)?;
    let found = state
        .read(&identity, "get_membership", async |conn: &mut Conn| {
            users::member(conn, tenant, &email).await?.ok_or_else(|| no_such("member", &email))
        })
        .await?;
    let etag = format!("\"{}\"", version(found.role, &found));
    Ok(Reply::ok(&membership(found))?.etag(etag).into_response())
}

/// `PUT /memberships/{email}`
pub(crate) async fn put(call: Call, email: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let condition = call.condition()?;
    let refused_one = |mistake: FieldError| ApiError::Refused(vec![mistake]);
    let spec: MembershipSpec = field_error::read(body.required()?, "").map_err(refused_one)?;
    let role = role(&spec).map_err(refused_one)?;
    check_email(&email).map_err(|message| ApiError::parameter("email", message))?;
    let tenant = call.tenant();
    let written = call
        .write("put_membership", async |conn: &mut Conn| {
            let saved = users::put_member(conn, tenant, &email, role).await.map_err(refused)?;
            let before = saved.before.map(|role| version(role, &saved.member));
            condition.check("member", before.as_deref())?;
            if saved.before != Some(role) {
                let entry = people::of_member(tenant, saved.before, &saved.member, &call.by);
                audit::write(conn, &[entry]).await?;
            }
            let is_new = saved.before.is_none();
            let etag = format!("\"{}\"", version(role, &saved.member));
            let shown = membership(saved.member);
            let reply = if is_new { Reply::created(&shown)? } else { Reply::ok(&shown)? };
            Ok::<_, ApiError>((reply.etag(etag), ()))
        })
        .await?;
    Ok(written.response)
}

/// `DELETE /memberships/{email}`
pub(crate) async fn delete(call: Call, email: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let condition = call.condition()?;
    check_email(&email).map_err(|message| ApiError::parameter("email", message))?;
    let tenant = call.tenant();
    let written = call
        .write("delete_membership", async |conn: &mut Conn| {
            let removed = users::remove_member(conn, tenant, &email).await.map_err(refused)?;
            condition.check("member", Some(&version(removed.role, &removed)))?;
            let entry = people::of_removed_member(tenant, &removed, &call.by);
            audit::write(conn, &[entry]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    Ok(written.response)
}

pub(crate) fn refused(error: MemberError) -> ApiError {
    match error {
        MemberError::NoSuchUser(email) => ApiError::NotFound { kind: "user", name: email },
        MemberError::LastOwner => ApiError::Refused(vec![FieldError {
            reason: Reason::LastOwner,
            pointer: String::new(),
            message: MemberError::LastOwner.to_string(),
        }]),
        MemberError::Database(error) => error.into(),
    }
}
