//! Responses stored under the idempotency key of a request, so that a repeated request has no
//! second effect.
//!
//! The response is written in the transaction of the change ([`begin`] before the change, [`keep`]
//! after it): a process that dies on any line in between has done neither. Of two concurrent
//! requests with one key, the second one learns that the first is in flight; neither waits. A
//! rejected request leaves nothing and may be repeated. Retention deletes stored responses
//! ([`crate::retention::retain::answers`]).

use diesel::prelude::*;
use diesel::sql_types::{Binary, Bool, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::kept_answers;
use crate::{Conn, DbResult};
use sched_domain::idempotency::Fingerprint;
use sched_domain::ids::TenantId;

/// A request with an idempotency key.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub tenant: TenantId,
    /// The sender.
    pub caller: &'a str,
    pub key: &'a str,
    /// Fingerprint of its content.
    pub fingerprint: Fingerprint,
}

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = kept_answers, check_for_backend(diesel::pg::Pg))]
pub struct KeptAnswer {
    /// Status, 200 to 299.
    pub status: i16,
    /// The `Location` header.
    pub location: Option<String>,
    /// The `ETag` header.
    pub etag: Option<String>,
    /// The JSON body.
    pub body: Option<String>,
}

/// State of a request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: the caller processes it now, and no other request does until the transaction ends.
    First,
    /// It was processed, with this response.
    Again(KeptAnswer),
    /// The key belongs to a different request, which was processed.
    OtherRequest,
    /// A request with this key is in flight.
    InFlight,
}

statement! {
    Lock<'a> = "idempotency/kept_answers_lock.sql", (
        tenant: TenantId as SqlUuid,
        caller: &'a str as Text,
        key: &'a str as Text,
    ) -> Bool
}

/// Checks whether a request was processed before. Call it first in the transaction of the change,
/// and [`keep`] last.
pub async fn begin(conn: &mut Conn, asked: &Asked<'_>) -> DbResult<Begun> {
    let Asked { tenant, caller, key, fingerprint } = *asked;
    if !(Lock { tenant, caller, key }.get_result::<bool>(conn).await?) {
        return Ok(Begun::InFlight);
    }
    // A separate statement: it starts after the lock and so sees the commit of the previous holder.
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
    /// Raw SQL because the query builder generates a new text for rows with missing values, which
    /// is never prepared.
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

/// Stores the response of a processed request. Call it in the transaction of the change.
///
/// # Errors
/// The change then rolls back too.
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
