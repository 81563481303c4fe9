//! Secrets: listing, writing and deleting them, and encrypting them anew. Nothing here gives a value out.
//!
//! Every write makes a new version, whether the value is another or not, so that nobody can find out a value by guessing. Bodies
//! are in no log and in no message. Deleting what a function names is refused unless it is forced.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::definitions::secrets::{self, DeleteError, PutError};
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
use crate::http::extract::{Body, NoParameters, Query, condition};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::etag::version_tag;
use crate::routes::{Answer, Id, State, operations::auditing};

/// `GET /secrets`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Secret>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"secrets", query.limit, query.cursor.as_deref())?;
    // Neither names nor projects hold the character between them.
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
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    Query(query): Query<SecretQuery>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let condition = condition(&http)?;
    let (tenant, keys) = (identity.tenant(), state.secret_keys()?);
    let value = read_value(body.required()?).map_err(|mistake| ApiError::Refused(vec![mistake]))?;
    check_secret_name(&name).map_err(|message| ApiError::parameter("name", message))?;
    let written = state
        .write(&identity, &request.0, "put_secret", async |conn: &mut Conn| {
            let project = project(conn, tenant, query.project.as_deref()).await?;
            let place = SecretPlace { tenant, project, name: &name };
            let saved = secrets::put(conn, place, &value, keys, &request.0.source)
                .await
                .map_err(|error| put_refused(error, query.project.as_deref()))?;
            let before = match saved.change {
                Change::Created => None,
                Change::Updated | Change::Unchanged => Some((saved.secret.version - 1).to_string()),
            };
            condition.check("secret", before.as_deref())?;
            let entry = auditing::of_secret(tenant, query.project.as_deref(), &saved, &request.0);
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
        tracing::info!(secret.name = name.as_str(), secret.version = version, "Wrote a secret.");
    }
    Ok(written.response)
}

/// `DELETE /secrets/{name}`
pub(crate) async fn delete(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    Query(query): Query<DeleteSecretQuery>,
) -> Result<HttpResponse, ApiError> {
    let (tenant, condition) = (identity.tenant(), condition(&http)?);
    let no_such_secret = || ApiError::NotFound { kind: "secret", name: name.as_str().to_owned() };
    // PostgreSQL would fail over a NUL, and nothing else that is no name has to be looked for either.
    check_secret_name(&name).map_err(|_no_name| no_such_secret())?;
    let written = state
        .write(&identity, &request.0, "delete_secret", async |conn: &mut Conn| {
            let project = project(conn, tenant, query.project.as_deref()).await?;
            let place = SecretPlace { tenant, project, name: &name };
            let deleted = secrets::delete(conn, place, query.force).await.map_err(delete_refused)?;
            let secret = deleted.ok_or_else(no_such_secret)?;
            condition.check("secret", Some(&secret.version.to_string()))?;
            let entry = auditing::of_deleted_secret(tenant, query.project.as_deref(), &secret, &request.0);
            audit::write(conn, &[entry]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    tracing::info!(secret.name = name.as_str(), "Deleted a secret.");
    Ok(written.response)
}

/// `POST /secret-keys/rotate`
pub(crate) async fn rotate(
    state: State,
    identity: Identity,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Answer<SecretsRotated> {
    let _: NoParameters = body.read_or_default()?;
    let (tenant, keys) = (identity.tenant(), state.secret_keys()?);
    let mut answer = SecretsRotated { key: keys.writing_id().to_owned(), rotated: 0, unreadable: Vec::new() };
    let mut after = None;
    loop {
        let page = state
            .change_installation(&identity, "rotate_secrets", async |conn: &mut Conn| {
                let page = secrets::rotate_page(conn, keys, after)
                    .await
                    .map_err(|error| put_refused(error, None))?;
                if page.resealed > 0 {
                    let entry = auditing::of_rotation(keys.writing_id(), page.resealed, &request.0);
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
                "A secret cannot be opened and was left as it is."
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
        "Encrypted secrets with the key that writes."
    );
    Ok(web::Json(answer))
}

/// The project of a request, if it names one.
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
