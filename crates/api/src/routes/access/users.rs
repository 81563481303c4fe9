//! Users of the installation, for operators.
//!
//! A user may belong to several tenants, so owners of tenants neither create users nor set
//! passwords. Passwords are hashed off the request threads, and never appear in logs or messages.

use actix_web::{HttpResponse, web};
use sched_model::definitions::resources::version_of;
use sched_model::domain::identity::hash_password;
use sched_model::identity::audit::AuditEntry;
use sched_model::identity::users::{self, ActiveError, NewUser, UserRecord};
use sched_model::{Conn, DbError, identity::audit};
use sched_wire::{Page, PageQuery, User, UserPatch, UserSpec};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::convert::identity::{check_user, check_user_patch, user};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, NoParameters, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::etag::tag;
use crate::routes::named_resource::{can_be_there, no_such};
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, State, compute};

/// `GET /users`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<User>> {
    let pages = Pages::of(&"users", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read_installation(&identity, "list_users", async |conn: &mut Conn| {
            Ok(users::list(conn, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |user| user.email.clone(), user)))
}

/// `POST /users`
pub(crate) async fn create(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let (spec, password) = check_user(read::<UserSpec>(body.required()?)?).map_err(ApiError::Refused)?;
    let hash = match password {
        Some(password) => Some(hash(&call.state, password).await?),
        None => None,
    };
    let new = NewUser {
        email: &spec.email,
        display_name: spec.display_name.as_deref().unwrap_or(&spec.email),
        password_hash: hash.as_deref(),
        is_system_operator: spec.is_system_operator,
    };
    let written = call
        .write_installation("create_user", async |conn: &mut Conn| {
            let made = users::create(conn, new).await.map_err(|error| create_refused(error, &spec.email))?;
            audit::write(conn, &[people::of_user("create_user", None, &made, &call.by)]).await?;
            let (id, etag) = (made.id, tag(made.updated_at));
            Ok::<_, ApiError>((Reply::created(&user(made))?.etag(etag), id))
        })
        .await?;
    if let Some(id) = written.extra {
        tracing::info!(user.id = %id, "user created");
    }
    Ok(written.response)
}

fn create_refused(error: DbError, email: &str) -> ApiError {
    match error.constraint() {
        Some("users_email_key") => ApiError::Refused(vec![FieldError {
            reason: Reason::AlreadyExists,
            pointer: "/email".to_owned(),
            message: format!("a user {email:?} exists already"),
        }]),
        _ => error.into(),
    }
}

fn read<T: DeserializeOwned>(body: Value) -> Result<T, ApiError> {
    read_with_secrets(body, &["password"])
}

/// Error messages do not show the values of password fields.
pub(crate) fn read_with_secrets<T: DeserializeOwned>(body: Value, fields: &[&str]) -> Result<T, ApiError> {
    let is_shown =
        |field: &&&str| body.get(**field).is_some_and(|value| !value.is_string() && !value.is_null());
    if let Some(field) = fields.iter().find(is_shown) {
        return Err(ApiError::Refused(vec![FieldError::invalid(format!("/{field}"), "must be a text")]));
    }
    field_error::read(body, "").map_err(|mistake| ApiError::Refused(vec![mistake]))
}

/// Few run at once: each takes a core and 19 MiB.
pub(crate) async fn hash(state: &State, password: SecretString) -> Result<String, ApiError> {
    let _turn = state.hashing_turn().await?;
    compute(move || hash_password(&password, rand::random())).await?.map_err(|_refused| ApiError::Broken)
}

/// `GET /users/{email}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    email: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    can_be_there("user", &email)?;
    let found = state
        .read_installation(&identity, "get_user", async |conn: &mut Conn| {
            users::by_email(conn, &email).await?.ok_or_else(|| no_such("user", &email))
        })
        .await?;
    let etag = tag(found.updated_at);
    Ok(Reply::ok(&user(found))?.etag(etag).into_response())
}

/// `PATCH /users/{email}`
pub(crate) async fn patch(
    call: Call,
    email: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    can_be_there("user", &email)?;
    let condition = call.condition()?;
    let patch = read::<UserPatch>(body.required()?)?;
    let is_system_operator = patch.is_system_operator;
    let (name, password) = check_user_patch(patch).map_err(ApiError::Refused)?;
    let hash = match password {
        Some(password) => Some(hash(&call.state, password).await?),
        None => None,
    };
    let by = &call.by;
    let written = call
        .write_installation("patch_user", async |conn: &mut Conn| {
            let first = match is_system_operator {
                Some(is) => users::set_operator(conn, &email, is).await.map_err(deactivate_refused)?,
                None => None,
            };
            let patched = users::patch(conn, &email, name.as_deref(), hash.as_deref()).await?;
            let (before, after) = patched.ok_or_else(|| no_such("user", &email))?;
            let before = first.map_or(before, |(before, _)| before);
            condition.check("user", Some(&version_of(before.updated_at).to_string()))?;
            let actions = changes(&before, &after, hash.is_some());
            if !actions.is_empty() {
                let entries: Vec<AuditEntry> = actions
                    .into_iter()
                    .map(|action| people::of_user(action, Some(&before), &after, by))
                    .collect();
                audit::write(conn, &entries).await?;
                tracing::info!(user.id = %after.id, has_new_password = hash.is_some(), "user changed");
            }
            let (id, etag) = (after.id, tag(after.updated_at));
            Ok::<_, ApiError>((Reply::ok(&user(after))?.etag(etag), id))
        })
        .await?;
    // A new password ended the user's sessions.
    if let Some(id) = written.extra {
        call.state.identities.forget_user(id);
    }
    Ok(written.response)
}

/// Granting and revoking the operator role are separate actions.
fn changes(before: &UserRecord, after: &UserRecord, has_new_password: bool) -> Vec<&'static str> {
    let mut actions = Vec::new();
    if has_new_password {
        actions.push("set_password");
    }
    match (before.is_system_operator, after.is_system_operator) {
        (false, true) => actions.push("grant_system_operator"),
        (true, false) => actions.push("revoke_system_operator"),
        _ => {}
    }
    if actions.is_empty() && before != after || before.display_name != after.display_name {
        actions.push("update_user");
    }
    actions
}

/// `DELETE /users/{email}`
pub(crate) async fn delete(call: Call, email: web::Path<String>) -> Result<HttpResponse, ApiError> {
    can_be_there("user", &email)?;
    let (condition, by) = (call.condition()?, &call.by);
    let own = call.identity.caller().user;
    let written = call
        .write_installation("delete_user", async |conn: &mut Conn| {
            let deleted = users::delete(conn, &email).await.map_err(deactivate_refused)?;
            let deleted = deleted.ok_or_else(|| no_such("user", &email))?;
            condition.check("user", Some(&version_of(deleted.updated_at).to_string()))?;
            if own == Some(deleted.id) {
                let message =
                    "you cannot do this to your own account; another operator of the installation can"
                        .to_owned();
                let pointer = String::new();
                return Err(ApiError::Refused(vec![FieldError { reason: Reason::InUse, pointer, message }]));
            }
            let entry = people::of_user("delete_user", Some(&deleted), &deleted, by);
            audit::write(conn, &[AuditEntry { after: None, ..entry }]).await?;
            Ok::<_, ApiError>((Reply::no_content(), deleted.id))
        })
        .await?;
    if let Some(id) = written.extra {
        call.state.identities.forget_user(id);
        tracing::info!(user.id = %id, "user deleted");
    }
    Ok(written.response)
}

/// `POST /users/{email}/activate`
pub(crate) async fn activate(
    call: Call,
    email: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    set_active(&call, &email, true).await
}

/// `POST /users/{email}/deactivate`
pub(crate) async fn deactivate(
    call: Call,
    email: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    set_active(&call, &email, false).await
}

async fn set_active(call: &Call, email: &str, is_active: bool) -> Result<HttpResponse, ApiError> {
    let no_such_user = || ApiError::NotFound { kind: "user", name: email.to_owned() };
    if email.contains('\0') {
        return Err(no_such_user());
    }
    let action = if is_active { "activate_user" } else { "deactivate_user" };
    let by = &call.by;
    let written = call
        .write_installation(action, async |conn: &mut Conn| {
            let (before, after) = users::set_active(conn, email, is_active)
                .await
                .map_err(deactivate_refused)?
                .ok_or_else(no_such_user)?;
            let id = after.id;
            if before.is_active != is_active {
                audit::write(conn, &[people::of_user(action, Some(&before), &after, by)]).await?;
            }
            Ok::<_, ApiError>((Reply::ok(&user(after))?, id))
        })
        .await?;
    if let Some(id) = written.extra {
        call.state.identities.forget_user(id);
    }
    Ok(written.response)
}

fn deactivate_refused(error: ActiveError) -> ApiError {
    let message = error.to_string();
    let reason = match error {
        ActiveError::LastOwner(_) => Reason::LastOwner,
        ActiveError::LastOperator => Reason::LastOperator,
        ActiveError::Database(error) => return error.into(),
    };
    ApiError::Refused(vec![FieldError { reason, pointer: String::new(), message }])
}
