//! Answers that are kept under the key a client gave its request, so that sending the request again does nothing again.
//!
//! The answer is written in the transaction of the change it tells of ([`begin`] before the change, [`keep`] after it): whoever dies on any
//! line in between has done neither. Of two requests under one key at the same moment one is told that the other is under way; nobody
//! waits. A request that is refused leaves nothing, and may be sent again. How long answers are kept is retention's matter
//! ([`crate::retention::retain::answers`]).

use diesel::prelude::*;
use diesel::sql_types::{Binary, Bool, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::kept_answers;
use crate::{Conn, DbResult};
use sched_domain::idempotency::Fingerprint;
use sched_domain::ids::TenantId;

/// A request under a key.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Tenant in which it acts.
    pub tenant: TenantId,
    /// Who sends it.
    pub caller: &'a str,
    /// Its key.
    pub key: &'a str,
    /// What it asks for.
    pub fingerprint: Fingerprint,
}

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = kept_answers, check_for_backend(diesel::pg::Pg))]
pub struct KeptAnswer {
    /// Its status, 200 to 299.
    pub status: i16,
    /// Its `Location`.
    pub location: Option<String>,
    /// Its `ETag`.
    pub etag: Option<String>,
    /// Its body, in JSON.
    pub body: Option<String>,
}

/// What is known of a request under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: it is to be done now, and nobody else does it until the transaction ends.
    First,
    /// It was done, and this was the answer.
    Again(KeptAnswer),
    /// The key names another request, which was done.
    OtherRequest,
    /// A request under this key is being done at this moment.
    InFlight,
}

statement! {
    Lock<'a> = "idempotency/kept_answers_lock.sql", (
        tenant: TenantId as SqlUuid,
        caller: &'a str as Text,
        key: &'a str as Text,
    ) -> Bool
}

/// Finds out whether a request was done before. Call it first in the transaction of the change, and [`keep`] last.
pub async fn begin(conn: &mut Conn, asked: &Asked<'_>) -> DbResult<Begun> {
    let Asked { tenant, caller, key, fingerprint } = *asked;
    if !(Lock { tenant, caller, key }.get_result::<bool>(conn).await?) {
        return Ok(Begun::InFlight);
    }
    // A statement of its own: what the one before us has committed is seen only by who begins after that.
    let found: Option<(Vec<u8>, KeptAnswer)> = kept_answers::table
        .find((tenant, caller, key))
        .select((kept_answers::fingerprint, KeptAnswer::as_select()))
        .get_result(conn)
        .await
        .optional()?;
    Ok(match found {
        None => Begun::First,
        Some((known, answer)) if known == fingerprint.0 => Begun::Again(answer),
        Some(_) => Begun::OtherRequest,
    })
}

statement! {
    /// Raw because the query builder writes a row with values that may be missing out anew each time, as a statement that is never prepared.
    Keep<'a> = "idempotency/kept_answers_keep.sql", (
        tenant: TenantId as SqlUuid,
        caller: &'a str as Text,
        key: &'a str as Text,
        fingerprint: &'a [u8] as Binary,
        status: i16 as SmallInt,
        location: Option<&'a str> as Nullable<Text>,
        etag: Option<&'a str> as Nullable<Text>,
        body: Option<&'a str> as Nullable<Text>,
    ) -> ()
}

/// Keeps the answer to a request that was done. Call it in the transaction of the change.
///
/// # Errors
/// When the database cannot be asked; what was done is then rolled back with it.
pub async fn keep(conn: &mut Conn, asked: &Asked<'_>, answer: &KeptAnswer) -> DbResult<()> {
    Keep {
        tenant: asked.tenant,
        caller: asked.caller,
        key: asked.key,
        fingerprint: &asked.fingerprint.0,
        status: answer.status,
        location: answer.location.as_deref(),
        etag: answer.etag.as_deref(),
        body: answer.body.as_deref(),
    }
    .execute(conn)
    .await?;
    Ok(())
}
