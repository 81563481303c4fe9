//! Users of the installation, for who operates it: listing and making them, and whether they may sign in.
//!
//! Users may belong to several tenants, so no tenant's owner makes them or sets their passwords. A password is hashed where no request
//! waits for it, and is in no log and in no message.

use actix_web::{HttpResponse, web};
use sched_model::db::users::{self, NewUser};
use sched_model::db::{Conn, DbError, audit, transact};
use sched_model::domain::identity::hash_password;
use sched_wire::{Page, PageQuery, User, UserSpec};
use secrecy::SecretString;
use serde_json::Value;

use super::{Answer, Id, State, auditing, compute};
use crate::dto::identity::{check_user, user};
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::mistake::{self, Mistake, Reason};
use crate::page::Limit;

/// `GET /users`
pub(crate) async fn list(state: State, Query(query): Query<PageQuery>) -> Answer<Page<User>> {
    let limit = Limit::new(query.limit)?;
    let mut conn = state.database.conn().await?;
    let rows = users::list(&mut conn, query.cursor.as_deref(), limit.rows()).await?;
    Ok(web::Json(limit.page(rows, |user| user.email.clone(), user)))
}

/// `POST /users`
pub(crate) async fn create(
    state: State,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (spec, password) = check_user(read(body.required()?)?).map_err(ApiError::Refused)?;
    let hash = match password {
        Some(password) => Some(hash(&state, password).await?),
        None => None,
    };
    let new = NewUser {
        email: &spec.email,
        display_name: spec.display_name.as_deref().unwrap_or(&spec.email),
        password_hash: hash.as_deref(),
        is_system_operator: spec.is_system_operator,
    };
    let mut conn = state.database.conn().await?;
    let made = transact(&mut conn, "create_user", async |conn: &mut Conn| {
        let made = users::create(conn, new).await?;
        audit::write(conn, &[auditing::of_user("create_user", None, &made, &request.0)]).await?;
        Ok::<_, DbError>(made)
    })
    .await
    .map_err(|error| match error.constraint() {
        Some("users_email_key") => ApiError::Refused(vec![Mistake {
            reason: Reason::AlreadyExists,
            pointer: "/email".to_owned(),
            message: format!("a user {:?} exists already", spec.email),
        }]),
        _ => error.into(),
    })?;
    tracing::info!(user.id = %made.id, "Made a user.");
    Ok(HttpResponse::Created().json(user(made)))
}

/// Reads the body, whose mistakes must not show a password that stands at the wrong place.
fn read(body: Value) -> Result<UserSpec, ApiError> {
    if body.get("password").is_some_and(|password| !password.is_string() && !password.is_null()) {
        return Err(ApiError::Refused(vec![Mistake::invalid("/password", "must be a text")]));
    }
    mistake::read(body, "").map_err(|mistake| ApiError::Refused(vec![mistake]))
}

/// Hashes a password; few at once, since each takes a core and 19 MiB for a while.
async fn hash(state: &State, password: SecretString) -> Result<String, ApiError> {
    let _turn = state.hashing.acquire().await.map_err(|_closed| ApiError::Broken)?;
    compute(move || hash_password(&password, rand::random())).await?.map_err(|_refused| ApiError::Broken)
}

/// `POST /users/{email}/activate`
pub(crate) async fn activate(
    state: State,
    request: Id,
    email: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Answer<User> {
    let NoParameters {} = body.read_or_default()?;
    set_active(&state, &request, &email, true).await
}

/// `POST /users/{email}/deactivate`
pub(crate) async fn deactivate(
    state: State,
    request: Id,
    email: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Answer<User> {
    let NoParameters {} = body.read_or_default()?;
    set_active(&state, &request, &email, false).await
}

async fn set_active(state: &State, request: &Id, email: &str, is_active: bool) -> Answer<User> {
    let no_such_user = || ApiError::NotFound { kind: "user", name: email.to_owned() };
    if email.contains('\0') {
        return Err(no_such_user());
    }
    let action = if is_active { "activate_user" } else { "deactivate_user" };
    let mut conn = state.database.conn().await?;
    let changed = transact(&mut conn, action, async |conn: &mut Conn| {
        let Some(before) = users::set_active(conn, email, is_active).await? else { return Ok(None) };
        let after = users::UserRecord { is_active, ..before.clone() };
        if before.is_active != is_active {
            audit::write(conn, &[auditing::of_user(action, Some(&before), &after, &request.0)]).await?;
        }
        Ok::<_, DbError>(Some(after))
    })
    .await?;
    Ok(web::Json(user(changed.ok_or_else(no_such_user)?)))
}
