//! Secrets: list, write, delete and re-encrypt them. No answer contains a value.
//!
//! Every write creates a new version, even with the same value, so that a caller cannot guess a
//! value by writing. Bodies never appear in logs or messages. Deleting a secret that a function
//! names is rejected unless forced.

use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::definitions::secrets::{self, DeleteError, NewValue, PutError};
use sched_model::domain::ids::{ProjectId, TenantId};
use sched_model::domain::secret::{SecretPlace, check_secret_name};
use sched_model::{
    Conn, DbError,
    identity::{audit, tenants},
};
use sched_wire::{DeleteSecretQuery, Page, PageQuery, Secret, SecretQuery, SecretsRotated, UnreadableSecret};

use crate::convert::secret::{read_value, show};
use crate::error::ApiError;
use crate::error::field_error::{FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, NoParameters, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::etag::version_tag;
use crate::routes::{Answer, State, operations::auditing};

/// `GET /secrets`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Secret>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"secrets", query.limit, query.cursor.as_deref())?;
    // Neither names nor projects contain the separator.
    let cursor = pages.after().unwrap_or_default();
    let after = cursor.split_once('/').unwrap_or((cursor, ""));
    let rows = state
        .read(&identity, "list_secrets", async |conn: &mut Conn| {
            Ok(secrets::list(conn, tenant, after, pages.rows()).await?)
        })
        .await?;
    let key = |(secret, project): &(secrets::SecretRecord, Option<String>)| {
        format!("{}/{}", secret.name, project.as_deref().unwrap_or_default())
    };
    Ok(web::Json(pages.page(rows, key, |(secret, project)| show(secret, project))))
}

/// `GET /secrets/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
    Query(query): Query<SecretQuery>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let no_such_secret = || ApiError::NotFound { kind: "secret", name: name.as_str().to_owned() };
    if name.contains('\0') {
        return Err(no_such_secret());
    }
    let found = state
        .read(&identity, "get_secret", async |conn: &mut Conn| {
            let project = project(conn, tenant, query.project.as_deref()).await?;
            let place = SecretPlace { tenant, project, name: &name };
            secrets::find(conn, place).await?.ok_or_else(no_such_secret)
        })
        .await?;
    let etag = version_tag(found.version);
    Ok(Reply::ok(&show(found, query.project))?.etag(etag).into_response())
}

/// `PUT /secrets/{name}`
pub(crate) async fn put(
    call: Call,
    name: web::Path<String>,
    Query(query): Query<SecretQuery>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let condition = call.condition()?;
    let (tenant, keys) = (call.tenant(), call.state.secret_keys()?);
    let value = read_value(body.required()?).map_err(|mistake| ApiError::Refused(vec![mistake]))?;
    check_secret_name(&name).map_err(|message| ApiError::parameter("name", message))?;
    let written = call
        .write("put_secret", async |conn: &mut Conn| {
            let project = project(conn, tenant, query.project.as_deref()).await?;
            let place = SecretPlace { tenant, project, name: &name };
            let new = NewValue { place, value: &value, source: &call.by.source };
            let saved = secrets::put(conn, new, keys)
                .await
                .map_err(|error| put_refused(error, query.project.as_deref()))?;
            let before = match saved.change {
                Change::Created => None,
                Change::Updated | Change::Unchanged => Some((saved.secret.version - 1).to_string()),
            };
            condition.check("secret", before.as_deref())?;
            let entry = auditing::of_secret(query.project.as_deref(), &saved, &call.by);
            audit::write(conn, &[entry]).await?;
            let (change, version) = (saved.change, saved.secret.version);
            let shown = show(saved.secret, query.project.clone());
            let reply = match change {
                Change::Created => Reply::created(&shown)?,
                Change::Updated | Change::Unchanged => Reply::ok(&shown)?,
            };
            Ok::<_, ApiError>((reply.etag(version_tag(version)), version))
        })
        .await?;
    if let Some(version) = written.extra {
        tracing::info!(secret.name = name.as_str(), secret.version = version, "secret written");
    }
    Ok(written.response)
}

/// `DELETE /secrets/{name}`
pub(crate) async fn delete(
    call: Call,
    name: web::Path<String>,
    Query(query): Query<DeleteSecretQuery>,
) -> Result<HttpResponse, ApiError> {
    let (tenant, condition) = (call.tenant(), call.condition()?);
    let no_such_secret = || ApiError::NotFound { kind: "secret", name: name.as_str().to_owned() };
    // PostgreSQL fails over a NUL, and other malformed names need no query.
    check_secret_name(&name).map_err(|_no_name| no_such_secret())?;
    let written = call
        .write("delete_secret", async |conn: &mut Conn| {
            let project = project(conn, tenant, query.project.as_deref()).await?;
            let place = SecretPlace { tenant, project, name: &name };
            let deleted = secrets::delete(conn, place, query.force).await.map_err(delete_refused)?;
            let secret = deleted.ok_or_else(no_such_secret)?;
            condition.check("secret", Some(&secret.version.to_string()))?;
            let entry = auditing::of_deleted_secret(query.project.as_deref(), &secret, &call.by);
            audit::write(conn, &[entry]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    tracing::info!(secret.name = name.as_str(), "secret deleted");
    Ok(written.response)
}

/// `POST /secret-keys/rotate`
pub(crate) async fn rotate(call: Call, body: Body) -> Answer<SecretsRotated> {
    let _: NoParameters = body.read_or_default()?;
    let (tenant, keys) = (call.tenant(), call.state.secret_keys()?);
    let mut answer = SecretsRotated { key: keys.writing_id().to_owned(), rotated: 0, unreadable: Vec::new() };
    let mut after = None;
    loop {
        let page = call
            .state
            .change_installation(&call.identity, "rotate_secrets", async |conn: &mut Conn| {
                let page = secrets::rotate_page(conn, keys, after)
                    .await
                    .map_err(|error| put_refused(error, None))?;
                if page.resealed > 0 {
                    let entry = auditing::of_rotation(keys.writing_id(), page.resealed, &call.by);
                    audit::write(conn, &[entry]).await?;
                }
                Ok(page)
            })
            .await?;
        answer.rotated += page.resealed;
        for (owner, name, error) in page.unreadable {
            tracing::warn!(
                tenant.id = %owner,
                secret.name = name,
                error = &error as &dyn std::error::Error,
                "secret cannot be decrypted; left unchanged"
            );
            if owner == tenant {
                answer.unreadable.push(UnreadableSecret { name, reason: error.to_string() });
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    tracing::info!(
        secret.key = answer.key,
        secret.rotated = answer.rotated,
        secret.unreadable = answer.unreadable.len(),
        "secrets re-encrypted"
    );
    Ok(web::Json(answer))
}

async fn project(
    conn: &mut Conn,
    tenant: TenantId,
    name: Option<&str>,
) -> Result<Option<ProjectId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let found = tenants::project_by_name(conn, tenant, name).await?;
    found.map(Some).ok_or_else(|| no_such_project(name))
}

fn no_such_project(name: &str) -> ApiError {
    ApiError::parameter("project", format!("there is no project named {name:?}"))
}

fn put_refused(error: PutError, project: Option<&str>) -> ApiError {
    match error {
        PutError::Database(DbError::Constraint { name, .. }) if name == "secrets_project_fkey" => {
            no_such_project(project.unwrap_or_default())
        }
        PutError::Database(error) => error.into(),
        PutError::Seal(error) => ApiError::Unsealed(error),
    }
}

fn delete_refused(error: DeleteError) -> ApiError {
    match error {
        DeleteError::InUse { .. } => ApiError::Refused(vec![FieldError {
            reason: Reason::InUse,
            pointer: String::new(),
            message: format!("{error}; take it from them first, or delete it with force=true"),
        }]),
        DeleteError::Database(error) => error.into(),
    }
}
