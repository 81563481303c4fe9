//! API keys: create, list, change and revoke them.
//!
//! A key is shown once, in the answer that creates it; the database stores its hash.
//!
//! - A new key has no permission that its creator lacks, and does not outlive the key that creates
//!   it.
//! - Only owners revoke keys of owners.
//! - A caller that acts as a user has a bounded number of own keys. Keys of other users, and every
//!   key of a caller that scopes narrow, need a permission.
//! - An external token lives for minutes and cannot be revoked, so it creates no key without that
//!   permission.
//! - A change never widens or prolongs a key, because the holder of its text may differ from the
//!   caller. So a caller that may revoke a key may also change it.
//! - This process rejects a revoked key at once, other processes within five seconds.

use actix_web::{HttpResponse, web};
use chrono::{DateTime, Utc};
use sched_model::domain::identity::{ApiKey, ID_BYTES, Permission, Permissions, SECRET_BYTES};
use sched_model::domain::ids::UserId;
use sched_model::identity::api_keys::{self, Changed, KeyChange, NewApiKey, Revoked, Revoker};
use sched_model::{Conn, DbError, PageRequest, identity::audit};
use sched_wire::{ApiKeyPatch, ApiKeySpec, Page, PageQuery};
use secrecy::ExposeSecret as _;

use crate::convert::identity::{api_key, scopes, scopes_left};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Caller, Identity};
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, State};

/// Limit of usable own keys for a caller without the permission for all keys of the tenant. Each
/// key has its own rate limit.
const MOST_OWN: i64 = 20;

/// `GET /api-keys`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<sched_wire::ApiKey>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"api-keys", query.limit, query.cursor.as_deref())?;
    // Names may contain the separator; prefixes do not.
    let after = pages.after().and_then(|cursor| cursor.rsplit_once('/')).unwrap_or_default();
    let of = match KeyAccess::of(identity.caller(), Permission::KeysRead) {
        KeyAccess::All => None,
        KeyAccess::Own(user) => Some(user),
        KeyAccess::Denied => {
            return Ok(web::Json(Page::new(Vec::new(), None)));
        }
    };
    let rows = state
        .read(&identity, "list_api_keys", async |conn: &mut Conn| {
            let page = PageRequest { after, limit: pages.rows() };
            Ok(api_keys::list(conn, tenant, of, page).await?)
        })
        .await?;
    let key =
        |(key, _): &(api_keys::ApiKeyRecord, Option<String>)| format!("{}/{}", key.name, key.key_prefix);
    Ok(web::Json(pages.page(rows, key, |(key, user)| api_key(key, user))))
}

/// `GET /api-keys/{key}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    key: web::Path<String>,
) -> Answer<sched_wire::ApiKey> {
    let (tenant, key) = (identity.tenant(), key.as_str());
    let no_such_key = || ApiError::NotFound { kind: "API key", name: key.to_owned() };
    let of = match KeyAccess::of(identity.caller(), Permission::KeysRead) {
        KeyAccess::All => None,
        KeyAccess::Own(user) => Some(user),
        KeyAccess::Denied => return Err(no_such_key()),
    };
    if key.contains('\0') {
        return Err(no_such_key());
    }
    let found = state
        .read(&identity, "get_api_key", async |conn: &mut Conn| {
            api_keys::by_name(conn, tenant, of, key).await?.ok_or_else(no_such_key)
        })
        .await?;
    Ok(web::Json(api_key(found.0, found.1)))
}

/// `POST /api-keys`
pub(crate) async fn create(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let spec: ApiKeySpec =
        field_error::read(body.required()?, "").map_err(|mistake| ApiError::Refused(vec![mistake]))?;
    let requested = scopes(&spec).map_err(ApiError::Refused)?;
    let caller = call.identity.caller();
    let access = KeyAccess::of(caller, Permission::KeysWrite);
    let makes_own = matches!(access, KeyAccess::Own(_)) && !spec.of_tenant && !caller.is_by_token();
    if !makes_own && access != KeyAccess::All {
        return Err(ApiError::Forbidden(Permission::KeysWrite));
    }
    let user = caller.user.filter(|_| !spec.of_tenant);
    let scopes = bounded(caller, user.is_none(), requested)?;
    let expires_at = no_longer(caller.expires_at, spec.expires_at)?;
    let (id, secret): ([u8; ID_BYTES], [u8; SECRET_BYTES]) = (rand::random(), rand::random());
    let key = ApiKey::new(&call.state.identities.environment, id, secret);
    let hash = key.hash(call.state.ring());
    let new = NewApiKey {
        tenant: call.tenant(),
        user,
        name: &spec.name,
        prefix: key.prefix(),
        hash: &hash,
        scopes,
        expires_at,
        source: &call.by.source,
    };
    let written = call
        .write("create_api_key", async |conn: &mut Conn| {
            if let KeyAccess::Own(user) = access
                && api_keys::living(conn, new.tenant, user).await? >= MOST_OWN
            {
                return Err(too_many());
            }
            let created = api_keys::create(conn, new).await.map_err(refused)?;
            audit::write(conn, &[people::of_api_key(new.tenant, None, Some(&created), &call.by)]).await?;
            let prefix = created.key_prefix.clone();
            let owner = caller.email.clone().filter(|_| user.is_some());
            let key = key.text().expose_secret().to_owned();
            let shown = sched_wire::NewApiKey { key, api_key: api_key(created, owner) };
            Ok::<_, ApiError>((Reply::created(&shown)?, prefix))
        })
        .await?;
    if let Some(prefix) = written.extra {
        tracing::info!(api_key = prefix, "API key created");
    }
    Ok(written.response)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyAccess {
    All,
    /// Keys of the user that the caller acts as. They can do no more than the user.
    Own(UserId),
    /// A key of the tenant has no user, and a key that scopes narrow does not act as one.
    Denied,
}

impl KeyAccess {
    fn of(caller: &Caller, all: Permission) -> Self {
        match caller.user {
            _ if caller.permissions.has(all) => Self::All,
            Some(user) if !caller.is_bounded => Self::Own(user),
            _ => Self::Denied,
        }
    }
}

/// The requested scopes, or those of the creator where scopes narrow it.
fn bounded(
    creator: &Caller,
    is_of_tenant: bool,
    requested: Option<Permissions>,
) -> Result<Option<Permissions>, ApiError> {
    match requested {
        Some(requested) => match requested.iter().find(|scope| !creator.permissions.has(*scope)) {
            Some(scope) => Err(ApiError::TooWide(scope)),
            None => Ok(Some(requested)),
        },
        None if creator.is_bounded => Ok(Some(creator.permissions)),
        None if is_of_tenant => {
            let message = "must name what the key may do, since no role bounds a key of the tenant";
            Err(ApiError::Refused(vec![FieldError::invalid("/scopes", message)]))
        }
        None => Ok(None),
    }
}

/// Not later than the expiry of the key that creates it.
fn no_longer(
    creator: Option<DateTime<Utc>>,
    requested: Option<DateTime<Utc>>,
) -> Result<Option<DateTime<Utc>>, ApiError> {
    match (creator, requested) {
        (Some(creator), Some(requested)) if requested > creator => {
            Err(no_later(creator, "the end of the key that creates it"))
        }
        (creator, requested) => Ok(requested.or(creator)),
    }
}

fn too_many() -> ApiError {
    let message =
        format!("you have {MOST_OWN} API keys that can be used; revoke one, or let one expire, first");
    ApiError::Refused(vec![FieldError { reason: Reason::QuotaExceeded, pointer: String::new(), message }])
}

fn refused(error: DbError) -> ApiError {
    match error.constraint() {
        Some("api_keys_expires_after_created_check") => expiry_in_past(),
        // The membership ended after the creator was authenticated.
        Some("api_keys_membership_fkey") => ApiError::Unauthenticated(None),
        _ => error.into(),
    }
}

/// `PATCH /api-keys/{id-or-prefix}`
pub(crate) async fn patch(call: Call, key: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let no_such_key = || ApiError::NotFound { kind: "API key", name: key.as_str().to_owned() };
    if key.contains('\0') {
        return Err(no_such_key());
    }
    let patch: ApiKeyPatch =
        field_error::read(body.required()?, "").map_err(|mistake| ApiError::Refused(vec![mistake]))?;
    let scopes = scopes_left(&patch).map_err(ApiError::Refused)?;
    let change = KeyChange { key: &key, name: patch.name.as_deref(), scopes, expires_at: patch.expires_at };
    let by = revoker(call.identity.caller(), &call.by.source);
    let written = call
        .write("change_api_key", async |conn: &mut Conn| {
            let changed = api_keys::change(conn, tenant, change, by).await?;
            let after = match changed {
                Changed::Now { before, after } => {
                    if before != after {
                        let entry = people::of_api_key(tenant, Some(&before), Some(&after), &call.by);
                        audit::write(conn, &[entry]).await?;
                    }
                    *after
                }
                Changed::Over => return Err(key_ended()),
                Changed::Past => return Err(expiry_in_past()),
                Changed::Wider(scope) => return Err(wider(scope)),
                Changed::Longer(end) => return Err(no_later(end, "its present end")),
                Changed::OfAnOwner => return Err(ApiError::Forbidden(Permission::MembersWrite)),
                Changed::NoSuchKey => return Err(no_such_key()),
            };
            let prefix = after.key_prefix.clone();
            let found = api_keys::by_name(conn, tenant, None, &prefix).await?.ok_or_else(no_such_key)?;
            Ok::<_, ApiError>((Reply::ok(&api_key(found.0, found.1))?, prefix))
        })
        .await?;
    if let Some(prefix) = written.extra {
        // The cache still has its old permissions.
        call.state.identities.forget(&prefix);
        tracing::info!(api_key = prefix, "API key changed");
    }
    Ok(written.response)
}

fn revoker<'a>(caller: &Caller, source: &'a str) -> Revoker<'a> {
    // A caller that may take the role from an owner may take the key too.
    let may_owners = caller.permissions.has(Permission::MembersWrite);
    let (user, may_others) = match KeyAccess::of(caller, Permission::KeysWrite) {
        KeyAccess::All => (caller.user, true),
        KeyAccess::Own(user) => (Some(user), false),
        KeyAccess::Denied => (None, false),
    };
    Revoker { user, may_others, may_owners, source }
}

fn expiry_in_past() -> ApiError {
    ApiError::Refused(vec![FieldError::invalid("/expires_at", "must lie in the future")])
}

fn key_ended() -> ApiError {
    let message = "the key is revoked or has expired, which cannot be undone; create a new key".to_owned();
    ApiError::Refused(vec![FieldError { reason: Reason::Inactive, pointer: String::new(), message }])
}

fn wider(scope: Permission) -> ApiError {
    let message = format!("the key does not have {scope} and a key never gains scopes; create a new key");
    ApiError::Refused(vec![FieldError::invalid("/scopes", message)])
}

fn no_later(end: DateTime<Utc>, what: &str) -> ApiError {
    let message = format!("must not be later than {}, {what}", sched_wire::instant_text(end));
    ApiError::Refused(vec![FieldError::invalid("/expires_at", message)])
}

/// `DELETE /api-keys/{id-or-prefix}`
pub(crate) async fn revoke(call: Call, key: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let no_such_key = || ApiError::NotFound { kind: "API key", name: key.as_str().to_owned() };
    if key.contains('\0') {
        return Err(no_such_key());
    }
    let by = revoker(call.identity.caller(), &call.by.source);
    let written = call
        .write("revoke_api_key", async |conn: &mut Conn| {
            let revoked = match api_keys::revoke(conn, tenant, &key, by).await? {
                Revoked::Now(record) => {
                    let entry = people::of_api_key(tenant, Some(&record), None, &call.by);
                    audit::write(conn, &[entry]).await?;
                    Some(record.key_prefix)
                }
                Revoked::Before(_) => None,
                Revoked::OfAnOwner => return Err(ApiError::Forbidden(Permission::MembersWrite)),
                Revoked::NoSuchKey => return Err(no_such_key()),
            };
            Ok::<_, ApiError>((Reply::no_content(), revoked))
        })
        .await?;
    if let Some(Some(prefix)) = written.extra {
        call.state.identities.forget(&prefix);
        tracing::info!(api_key = prefix, "API key revoked");
    }
    Ok(written.response)
}
