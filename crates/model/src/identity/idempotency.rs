//! Responses stored under the idempotency key of a request, so that a repeated request has no
//! second effect.
//!
//! The response is written in the transaction of the change ([`begin`] before the change, [`store`]
//! after it), so a process that dies in between has done neither. Of two concurrent requests with
//! one key, the second one learns that the first is in flight; neither waits. A rejected request
//! leaves nothing and may be repeated. Retention deletes stored responses
//! ([`crate::retention::retain::answers`]).

use diesel::prelude::*;
use diesel::sql_types::{Binary, Bool, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::kept_answers;
use crate::{Conn, DbResult};
use sched_domain::idempotency::Fingerprint;
use sched_domain::ids::TenantId;

#[derive(Debug, Clone, Copy)]
pub struct KeyedRequest<'a> {
    pub tenant: TenantId,
    pub caller: &'a str,
    pub key: &'a str,
    pub fingerprint: Fingerprint,
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = kept_answers, check_for_backend(diesel::pg::Pg))]
pub struct StoredResponse {
    /// Status, 200 to 299.
    pub status: i16,
    pub location: Option<String>,
    pub etag: Option<String>,
    pub body: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// The caller processes it; no other request does until the transaction ends.
    First,
    Repeated(StoredResponse),
    OtherRequest,
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
/// and [`store`] last.
pub async fn begin(conn: &mut Conn, request: &KeyedRequest<'_>) -> DbResult<RequestState> {
    let KeyedRequest { tenant, caller, key, fingerprint } = *request;
    if !(Lock { tenant, caller, key }.get_result::<bool>(conn).await?) {
        return Ok(RequestState::InFlight);
    }
    // A separate statement starts after the lock, so it sees the commit of the previous holder.
    let found: Option<(Vec<u8>, StoredResponse)> = kept_answers::table
        .find((tenant, caller, key))
        .select((kept_answers::fingerprint, StoredResponse::as_select()))
        .get_result(conn)
        .await
        .optional()?;
    Ok(match found {
        None => RequestState::First,
        Some((known, answer)) if known == fingerprint.0 => RequestState::Repeated(answer),
        Some(_) => RequestState::OtherRequest,
    })
}

statement! {
    /// The query builder generates a new text for missing values, which is never prepared.
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
pub async fn store(conn: &mut Conn, request: &KeyedRequest<'_>, answer: &StoredResponse) -> DbResult<()> {
    Keep {
        tenant: request.tenant,
        caller: request.caller,
        key: request.key,
        fingerprint: &request.fingerprint.0,
        status: answer.status,
        location: answer.location.as_deref(),
        etag: answer.etag.as_deref(),
        body: answer.body.as_deref(),
    }
    .execute(conn)
    .await?;
    Ok(())
}
