//! Secrets: written sealed, listed without values, opened for one attempt.
//!
//! Keys are arguments and never part of a statement. Each write generates its own nonce, so a
//! repeated transaction seals again. No foreign key protects the names in configurations: a
//! function may be written while its secret is deleted, and its attempts then fail.

mod rotation;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bytea, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::Value;
use uuid::Uuid;

use super::saved::Change;
use crate::schema::{notification_channels, secrets};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::{JobId, ProjectId, TenantId};
use sched_domain::secret::{
    NONCE_BYTES, OpenError, SealError, Sealed, SecretKeys, SecretPlace, SecretValue, named_secrets,
};

pub use self::rotation::{ROTATION_PAGE, RotatedPage, rotate_page};

const MOST_NAMED_FUNCTIONS: usize = 10;

/// The public fields of a secret: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = secrets, check_for_backend(diesel::pg::Pg))]
pub struct SecretRecord {
    pub id: Uuid,
    pub project_id: Option<ProjectId>,
    pub name: String,
    pub key_id: String,
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub created_src: String,
    pub updated_at: DateTime<Utc>,
    pub updated_src: String,
}

#[derive(Debug, Clone)]
pub struct SavedSecret {
    pub secret: SecretRecord,
    /// Created or updated: values are never compared, so no response reveals whether the value was
    /// the same.
    pub change: Change,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Database(#[from] DbError),
}

impl From<diesel::result::Error> for PutError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl crate::connection::transaction::TransactionError for PutError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_retryable())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error("functions or notification channels name this secret: {}{}", .functions.join(", "), if *.more { " and more" } else { "" })]
    InUse {
        /// Names of the first functions; a channel's name has a prefix.
        functions: Vec<String>,
        more: bool,
    },
    #[error(transparent)]
    Database(#[from] DbError),
}

impl From<diesel::result::Error> for DeleteError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl crate::connection::transaction::TransactionError for DeleteError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_retryable())
    }
}

fn random_nonce() -> [u8; NONCE_BYTES] {
    rand::random()
}

#[derive(Debug, Clone, Copy)]
pub struct NewValue<'a> {
    pub place: SecretPlace<'a>,
    pub value: &'a SecretValue,
    /// Component or user e-mail address.
    pub source: &'a str,
}

/// Inserts or overwrites the value of a secret. Call it in a transaction.
///
/// # Errors
/// A constraint error if the project was deleted (`secrets_project_fkey`).
pub async fn put(conn: &mut Conn, new: NewValue<'_>, keys: &SecretKeys) -> Result<SavedSecret, PutError> {
    use secrets as s;
    let NewValue { place, value, source } = new;
    let existing = lock(conn, place).await?;
    let version = existing.as_ref().map_or(1, |existing| existing.version + 1);
    let sealed = keys.seal(place.version(version), value, random_nonce())?;
    let content = (
        s::key_id.eq(&sealed.key_id),
        s::nonce.eq(&sealed.nonce[..]),
        s::ciphertext.eq(&sealed.ciphertext),
        s::version.eq(version),
        s::updated_src.eq(source),
    );
    let Some(existing) = existing else {
        let own = (
            s::tenant_id.eq(place.tenant),
            s::project_id.eq(place.project),
            s::name.eq(place.name),
            s::created_src.eq(source),
        );
        let created = diesel::insert_into(s::table)
            .values((own, content))
            .returning(SecretRecord::as_returning())
            .get_result(conn)
            .await;
        let secret = created.map_err(|error| match DbError::from(error) {
            // Created after the lookup: this transaction runs again and finds it.
            DbError::Constraint { name, source, .. } if name == "secrets_name_key" => {
                DbError::Collision(source)
            }
            error => error,
        })?;
        return Ok(SavedSecret { secret, change: Change::Created });
    };
    let secret = diesel::update(s::table.find((place.tenant, existing.id)))
        .set((content, s::updated_at.eq(database_clock::clock_timestamp())))
        .returning(SecretRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok(SavedSecret { secret, change: Change::Updated })
}

async fn lock(conn: &mut Conn, place: SecretPlace<'_>) -> DbResult<Option<SecretRecord>> {
    let found = secrets::table
        .filter(secrets::tenant_id.eq(place.tenant))
        .filter(secrets::name.eq(place.name))
        .filter(secrets::project_id.is_not_distinct_from(place.project))
        .select(SecretRecord::as_select())
        .for_update()
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

pub async fn find(conn: &mut Conn, place: SecretPlace<'_>) -> DbResult<Option<SecretRecord>> {
    let found = secrets::table
        .filter(secrets::tenant_id.eq(place.tenant))
        .filter(secrets::name.eq(place.name))
        .filter(secrets::project_id.is_not_distinct_from(place.project))
        .select(SecretRecord::as_select());
    Ok(found.get_result(conn).await.optional()?)
}

#[rustfmt::skip]
type ListColumns = (
    SqlUuid, Nullable<SqlUuid>, Text, Text, BigInt, Timestamptz, Text, Timestamptz, Text, Nullable<Text>,
);

statement! {
    /// Raw SQL for its keyset over a nullable column.
    List<'a> = "secrets/secrets_list.sql", (
        tenant: TenantId as SqlUuid,
        after_name: &'a str as Text,
        after_project: &'a str as Text,
        limit: i64 as BigInt,
    ) -> ListColumns
}

#[derive(Queryable)]
struct ListRow {
    id: Uuid,
    project_id: Option<ProjectId>,
    name: String,
    key_id: String,
    version: i64,
    created_at: DateTime<Utc>,
    created_src: String,
    updated_at: DateTime<Utc>,
    updated_src: String,
    project: Option<String>,
}

/// Secrets of the tenant after `(name, project)`, at most `limit`, each with the name of its
/// project; by name, the tenant's own before those of its projects.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    (after_name, after_project): (&str, &str),
    limit: i64,
) -> DbResult<Vec<(SecretRecord, Option<String>)>> {
    let rows: Vec<ListRow> = List { tenant, after_name, after_project, limit }.load(conn).await?;
    let record = |row: ListRow| {
        let ListRow {
            id,
            project_id,
            name,
            key_id,
            version,
            created_at,
            created_src,
            updated_at,
            updated_src,
            ..
        } = row;
        let secret = SecretRecord {
            id,
            project_id,
            name,
            key_id,
            version,
            created_at,
            created_src,
            updated_at,
            updated_src,
        };
        (secret, row.project)
    };
    Ok(rows.into_iter().map(record).collect())
}

/// Those of these names without a secret in the tenant, in any project.
pub async fn unknown_names<'a>(
    conn: &mut Conn,
    tenant: TenantId,
    names: BTreeSet<&'a str>,
) -> DbResult<BTreeSet<&'a str>> {
    if names.is_empty() {
        return Ok(names);
    }
    let known: Vec<String> = secrets::table
        .filter(secrets::tenant_id.eq(tenant))
        .filter(secrets::name.eq_any(names.iter().copied().collect::<Vec<_>>()))
        .select(secrets::name)
        .distinct()
        .load(conn)
        .await?;
    Ok(names.into_iter().filter(|name| !known.iter().any(|known| known == name)).collect())
}

statement! {
    /// Raw SQL because it searches JSON.
    FunctionsNaming = "secrets/secrets_functions_naming.sql", (tenant: TenantId as SqlUuid) -> (Text, Jsonb)
}

/// Deletes a secret and returns it. Unless `even_if_named`, a secret that functions or notification
/// channels name stays.
///
/// # Errors
/// [`DeleteError::InUse`] if they name it.
pub async fn delete(
    conn: &mut Conn,
    place: SecretPlace<'_>,
    even_if_named: bool,
) -> Result<Option<SecretRecord>, DeleteError> {
    let Some(secret) = lock(conn, place).await? else { return Ok(None) };
    if !even_if_named {
        let candidates: Vec<(String, Value)> = FunctionsNaming { tenant: place.tenant }.load(conn).await?;
        let names_it = |config: &Value| named_secrets(config).iter().any(|named| named.name == place.name);
        let mut functions: Vec<String> =
            candidates.into_iter().filter(|(_, config)| names_it(config)).map(|(name, _)| name).collect();
        if place.project.is_none() {
            use notification_channels as c;
            let channels: Vec<String> = c::table
                .filter(c::tenant_id.eq(place.tenant).and(c::secret.eq(place.name)))
                .order(c::name)
                .select(c::name)
                .load(conn)
                .await?;
            functions.extend(channels.into_iter().map(|name| format!("notification channel {name}")));
        }
        if !functions.is_empty() {
            let more = functions.len() > MOST_NAMED_FUNCTIONS;
            functions.truncate(MOST_NAMED_FUNCTIONS);
            return Err(DeleteError::InUse { functions, more });
        }
    }
    diesel::delete(secrets::table.find((place.tenant, secret.id))).execute(conn).await?;
    Ok(Some(secret))
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = secrets, check_for_backend(diesel::pg::Pg))]
pub struct SealedSecret {
    id: Uuid,
    tenant_id: TenantId,
    project_id: Option<ProjectId>,
    pub name: String,
    version: i64,
    key_id: String,
    nonce: Vec<u8>,
    ciphertext: Vec<u8>,
}

impl SealedSecret {
    fn place(&self) -> SecretPlace<'_> {
        SecretPlace { tenant: self.tenant_id, project: self.project_id, name: &self.name }
    }

    /// Opens the value.
    ///
    /// # Errors
    /// The key is missing, or the sealed value belongs to a different row.
    pub fn open(&self, keys: &SecretKeys) -> Result<SecretValue, OpenError> {
        let key_id = self.key_id.clone();
        let Ok(nonce) = self.nonce.as_slice().try_into() else { return Err(OpenError::Refused { key_id }) };
        keys.open(
            self.place().version(self.version),
            &Sealed { key_id, nonce, ciphertext: self.ciphertext.clone() },
        )
    }
}

statement! {
    /// Raw SQL because of DISTINCT ON over a join.
    OfAttempt<'a> = "secrets/secrets_of_attempt.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        names: &'a [String] as Array<Text>,
    ) -> (SqlUuid, SqlUuid, Nullable<SqlUuid>, Text, BigInt, Text, Bytea, Bytea)
}

/// The secrets that attempts of a job may read: the project's before the tenant's. Unknown names
/// are missing in the result.
pub async fn of_attempt(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    names: &[String],
) -> DbResult<Vec<SealedSecret>> {
    Ok(OfAttempt { tenant, job, names }.load(conn).await?)
}

pub async fn of_tenant(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<SealedSecret>> {
    use secrets as s;
    let found = s::table
        .filter(s::tenant_id.eq(tenant).and(s::name.eq(name)).and(s::project_id.is_null()))
        .select(SealedSecret::as_select())
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}
