//! Rotation of the keys that seal secrets.

use diesel::prelude::*;
use diesel::sql_types::{Array, Bytea, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::{PutError, SealedSecret, random_nonce};
use crate::Conn;
use crate::schema::secrets;
use sched_domain::ids::TenantId;
use sched_domain::secret::{OpenError, SecretKeys};

/// Number of secrets in one page of a rotation: with the longest values a few megabytes.
pub const ROTATION_PAGE: i64 = 50;

#[derive(Debug, Default)]
pub struct RotatedPage {
    pub resealed: usize,
    pub unreadable: Vec<(TenantId, String, OpenError)>,
    /// Start of the next page; `None` after the last one.
    pub next: Option<(TenantId, Uuid)>,
}

statement! {
    /// Raw SQL for UPDATE … FROM.
    Reseal<'a> = "secrets_reseal.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        ids: &'a [Uuid] as Array<SqlUuid>,
        key_ids: &'a [&'a str] as Array<Text>,
        nonces: &'a [&'a [u8]] as Array<Bytea>,
        ciphertexts: &'a [&'a [u8]] as Array<Bytea>,
    ) -> ()
}

/// Reseals a page of the secrets of all tenants that are not sealed with the current key.
///
/// Their versions and times do not change. Call it in one transaction for each page, starting with
/// `None`.
pub async fn rotate_page(
    conn: &mut Conn,
    keys: &SecretKeys,
    after: Option<(TenantId, Uuid)>,
) -> Result<RotatedPage, PutError> {
    use secrets as s;
    let (tenant, id) = after.unwrap_or((TenantId(Uuid::nil()), Uuid::nil()));
    let rows: Vec<SealedSecret> = s::table
        .filter(s::key_id.ne(keys.writing_id()))
        .filter(s::tenant_id.gt(tenant).or(s::tenant_id.eq(tenant).and(s::id.gt(id))))
        .order((s::tenant_id, s::id))
        .limit(ROTATION_PAGE)
        .select(SealedSecret::as_select())
        .for_no_key_update()
        .load(conn)
        .await?;
    let is_full = i64::try_from(rows.len()).is_ok_and(|count| count == ROTATION_PAGE);
    let next = rows.last().filter(|_| is_full).map(|last| (last.tenant_id, last.id));
    let mut page = RotatedPage { next, ..RotatedPage::default() };
    let mut resealed = Vec::new();
    for row in &rows {
        match row.open(keys) {
            Ok(value) => {
                resealed.push((row, keys.seal(row.place().version(row.version), &value, random_nonce())?))
            }
            Err(error) => page.unreadable.push((row.tenant_id, row.name.clone(), error)),
        }
    }
    if !resealed.is_empty() {
        let tenants: Vec<TenantId> = resealed.iter().map(|(row, _)| row.tenant_id).collect();
        let ids: Vec<Uuid> = resealed.iter().map(|(row, _)| row.id).collect();
        let key_ids: Vec<&str> = resealed.iter().map(|(_, sealed)| sealed.key_id.as_str()).collect();
        let nonces: Vec<&[u8]> = resealed.iter().map(|(_, sealed)| &sealed.nonce[..]).collect();
        let ciphertexts: Vec<&[u8]> =
            resealed.iter().map(|(_, sealed)| sealed.ciphertext.as_slice()).collect();
        let statement = Reseal {
            tenants: &tenants,
            ids: &ids,
            key_ids: &key_ids,
            nonces: &nonces,
            ciphertexts: &ciphertexts,
        };
        page.resealed = statement.execute(conn).await?;
    }
    Ok(page)
}
