//! Sessions of users: sign in with a password, list sessions, sign out.
//!
//! The token of a session is only in a cookie; the database stores its hash. A signed-in user acts
//! in one tenant, with its role there. This process rejects an ended session at once, other
//! processes within five seconds. A process that dies before the answer leaves a session without a
//! holder; it expires when unused.

use std::net::IpAddr;

use actix_web::http::header::USER_AGENT;
use actix_web::{HttpRequest, HttpResponse, rt, web};
use sched_model::domain::identity::SessionToken;
use sched_model::domain::ids::{SessionId, TenantId, UserId};
use sched_model::identity::sessions::{self, NewSession, SessionRecord};
use sched_model::identity::sign_ins::{self, Account, AccountMembership, Subjects};
use sched_model::{
    Conn,
    identity::{audit, tenants},
};
use sched_wire::{OwnSession, Page, Session, SignIn};
use secrecy::SecretString;
use uuid::Uuid;

use crate::convert::identity::{check_sign_in, me, session};
use crate::database::requests::Write;
use crate::error::ApiError;
use crate::error::field_error::FieldError;
use crate::http::call::Call;
use crate::http::client_address;
use crate::http::extract::Body;
use crate::http::reply::Reply;
use crate::identity::{self, Actor, Claim, FailedSignIn, Identity, PasswordCheck, RequestContext};
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, State};

/// Longest stored part of `User-Agent`, in characters.
const LONGEST_USER_AGENT: usize = 200;

/// `POST /sessions`
pub(crate) async fn create(
    state: State,
    request: web::ReqData<RequestContext>,
    http: HttpRequest,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let mut sign_in: SignIn = super::users::read_with_secrets(body.required()?, &["password"])?;
    let password = SecretString::from(std::mem::take(&mut sign_in.password));
    check_sign_in(&sign_in, &password).map_err(ApiError::Refused)?;
    let client = ClientInfo::of(&http, &state);
    state.identities.admit_unauthenticated(client.address)?;
    let claim = Claim { email: &sign_in.email, password, address: client.address };
    let slug = sign_in.tenant.as_deref();
    let (account, verified, subjects) = match identity::verify(&state, claim).await? {
        PasswordCheck::Right { account, verified, subjects } => (account, verified, subjects),
        PasswordCheck::Wrong { account, failures } => {
            tracing::info!(client.address = ?client.address, "sign-in failed");
            if let Some(account) = account {
                let (failures, request) = (Some(failures), request.id.clone());
                let attempt = FailedSignIn { account, failures, address: client.address, request };
                record_failed_sign_in(&state, attempt, slug);
            }
            return Err(ApiError::SignInFailed("the address or the password is wrong"));
        }
    };
    let Some(membership) = chosen(&account, slug) else {
        identity::reset_failures(&state, &subjects).await?;
        let refused = ApiError::Refused(vec![which_tenant(&account)]);
        let request = request.id.clone();
        let attempt = FailedSignIn { account, failures: None, address: client.address, request };
        record_failed_sign_in(&state, attempt, slug);
        return Err(refused);
    };
    state.identities.admit_authenticated(client.address);
    let start = VerifiedSignIn { account: &account, membership, verified: &verified, subjects: &subjects };
    start.create_session(&state, request.into_inner(), &client).await
}

fn chosen<'a>(account: &'a Account, slug: Option<&str>) -> Option<&'a AccountMembership> {
    match (slug, account.memberships.as_slice()) {
        (Some(slug), memberships) => memberships.iter().find(|one| one.slug == slug),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// The refusal of a sign-in with a correct password. Only such a refusal lists the tenants.
fn which_tenant(account: &Account) -> FieldError {
    let slugs: Vec<&str> = account.memberships.iter().map(|one| one.slug.as_str()).collect();
    let message = match slugs.as_slice() {
        [] => "there is no tenant that you are a member of; an owner of one makes you one".to_owned(),
        slugs => format!("must be a tenant that you are a member of: {}", slugs.join(", ")),
    };
    FieldError::invalid("/tenant", message)
}

/// Writes the failed attempt to the audit log of the requested tenant, while the answer is sent. If
/// the user is not its member, writes it in all tenants of the user, so that another tenant's name
/// hides no attempt.
fn record_failed_sign_in(state: &State, attempt: FailedSignIn, slug: Option<&str>) {
    let account = &attempt.account;
    let tenants: Vec<TenantId> = match chosen(account, slug) {
        Some(membership) => vec![membership.tenant],
        None => account.memberships.iter().map(|membership| membership.tenant).collect(),
    };
    let state = state.clone();
    // Ends on its own: one statement per tenant, each with a time limit.
    rt::spawn(async move { identity::record_failed_sign_in(&state, &tenants, &attempt).await });
}

pub(crate) struct ClientInfo {
    pub(crate) address: Option<IpAddr>,
    user_agent: Option<String>,
}

impl ClientInfo {
    pub(crate) fn of(http: &HttpRequest, state: &State) -> Self {
        let user_agent = http.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
        Self {
            address: client_address::address(http.peer_addr(), http.headers(), &state.trusted_proxies),
            user_agent: user_agent.map(|text| text.chars().take(LONGEST_USER_AGENT).collect()),
        }
    }
}

/// A sign-in with a correct password.
pub(crate) struct VerifiedSignIn<'a> {
    pub(crate) account: &'a Account,
    pub(crate) membership: &'a AccountMembership,
    /// The stored hash that the password matched.
    pub(crate) verified: &'a str,
    pub(crate) subjects: &'a Subjects,
}

impl VerifiedSignIn<'_> {
    async fn create_session(
        &self,
        state: &State,
        request: RequestContext,
        client: &ClientInfo,
    ) -> Result<HttpResponse, ApiError> {
        let token = new_token();
        let identity = Identity::of_new_session(self.account, self.membership, token.id());
        let by = identity.signs(request, None);
        let (user, verified, subjects) = (self.account.user, self.verified, self.subjects);
        let start = SessionStart { state, identity: &identity, by: &by, token: &token, client };
        let written = state
            .write(Write::new("sign_in", &by), async |conn: &mut Conn| {
                if !sign_ins::record_sign_in(conn, user, verified).await? {
                    // The password changed after it was verified.
                    return Err(ApiError::SignInFailed("the address or the password is wrong"));
                }
                sign_ins::reset_failures(conn, subjects).await?;
                Ok((Reply::created(&start.write(conn).await?)?, ()))
            })
            .await?;
        tracing::info!(user.id = %user, session.id = %token.id(), "user signed in");
        with_cookie(state, written.response, &token)
    }
}

pub(crate) fn new_token() -> SessionToken {
    SessionToken::new(SessionId(Uuid::new_v4()), rand::random())
}

/// The start of a session.
pub(crate) struct SessionStart<'a> {
    pub(crate) state: &'a State,
    /// The user, in the new session.
    pub(crate) identity: &'a Identity,
    pub(crate) by: &'a Actor,
    pub(crate) token: &'a SessionToken,
    pub(crate) client: &'a ClientInfo,
}

impl SessionStart<'_> {
    /// Writes the session and its audit entry. Returns the owner's view.
    pub(crate) async fn write(&self, conn: &mut Conn) -> Result<OwnSession, ApiError> {
        let Self { state, identity, token, client, .. } = *self;
        let hash = token.hash(state.ring());
        let address = client.address.map(|address| address.to_string());
        let new = NewSession {
            tenant: identity.tenant(),
            id: token.id(),
            user: identity.caller().user.ok_or(ApiError::Broken)?,
            hash: &hash,
            user_agent: client.user_agent.as_deref(),
            address: address.as_deref(),
            idle_seconds: state.session_times.idle.as_secs_f64(),
            seconds: state.session_times.lifetime.as_secs_f64(),
        };
        let session = sessions::create(conn, new).await.map_err(|error| match error.constraint() {
            // The membership ended after it was read.
            Some("sessions_membership_fkey") => {
                ApiError::SignInFailed("you are not a member of the tenant any more")
            }
            _ => error.into(),
        })?;
        audit::write(conn, &[people::of_session(identity.tenant(), None, Some(&session), self.by)]).await?;
        own(conn, identity, token, session).await
    }
}

async fn own(
    conn: &mut Conn,
    identity: &Identity,
    token: &SessionToken,
    record: SessionRecord,
) -> Result<OwnSession, ApiError> {
    let tenant = tenants::by_id(conn, identity.tenant()).await?;
    Ok(OwnSession {
        csrf_token: token.csrf(),
        session: session(record, Some(token.id())),
        me: me(identity, tenant),
    })
}

pub(crate) fn with_cookie(
    state: &State,
    response: HttpResponse,
    token: &SessionToken,
) -> Result<HttpResponse, ApiError> {
    let mut response = response;
    identity::set_cookie(response.headers_mut(), token, state.session_times.lifetime.as_secs())
        .map_err(|_never| ApiError::Broken)?;
    Ok(response)
}

/// `GET /sessions`
pub(crate) async fn list(state: State, identity: Identity) -> Answer<Page<Session>> {
    as_person(&identity)?;
    let (tenant, current) = (identity.tenant(), identity.caller().session);
    let rows = match identity.caller().user {
        Some(user) => {
            let read = state.read(&identity, "list_sessions", async |conn: &mut Conn| {
                Ok(sessions::list(conn, tenant, user).await?)
            });
            read.await?
        }
        None => Vec::new(),
    };
    let items = rows.into_iter().map(|row| session(row, current)).collect();
    Ok(web::Json(Page::new(items, None)))
}

/// `GET /sessions/current`
pub(crate) async fn current(state: State, identity: Identity, http: HttpRequest) -> Answer<OwnSession> {
    let (user, id) = current_of(&identity)?;
    let token = identity::cookie(http.headers())?.ok_or_else(no_current)?;
    let tenant = identity.tenant();
    let read = state.read(&identity, "get_session", async |conn: &mut Conn| {
        let found = sessions::get(conn, tenant, user, id).await?.ok_or_else(no_current)?;
        own(conn, &identity, &token, found).await
    });
    Ok(web::Json(read.await?))
}

/// `DELETE /sessions/current`
pub(crate) async fn sign_out(call: Call) -> Result<HttpResponse, ApiError> {
    let (user, id) = current_of(&call.identity)?;
    end(&call, user, id).await
}

/// `DELETE /sessions/{id}`
pub(crate) async fn delete(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    as_person(&call.identity)?;
    let parsed = id.parse::<SessionId>().ok().zip(call.identity.caller().user);
    let (session, user) = parsed.ok_or_else(|| no_such(&id))?;
    end(&call, user, session).await
}

async fn end(call: &Call, user: UserId, id: SessionId) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let written = call
        .write("end_session", async |conn: &mut Conn| {
            let ended = sessions::end(conn, tenant, user, id).await?;
            let ended = ended.ok_or_else(|| no_such(&id.to_string()))?;
            audit::write(conn, &[people::of_session(tenant, Some(&ended), None, &call.by)]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    call.state.identities.forget_session(id);
    let mut response = written.response;
    if call.identity.caller().session == Some(id) {
        identity::clear_cookie(response.headers_mut()).map_err(|_never| ApiError::Broken)?;
    }
    Ok(response)
}

/// Rejects a key or token that lacks some permissions of its user. One without a user passes: it
/// has no sessions either.
pub(crate) fn as_person(identity: &Identity) -> Result<(), ApiError> {
    let caller = identity.caller();
    if caller.is_bounded && caller.user.is_some() { Err(ApiError::Bounded) } else { Ok(()) }
}

fn current_of(identity: &Identity) -> Result<(UserId, SessionId), ApiError> {
    let caller = identity.caller();
    caller.user.zip(caller.session).ok_or_else(no_current)
}

fn no_current() -> ApiError {
    no_such("current")
}

fn no_such(name: &str) -> ApiError {
    ApiError::NotFound { kind: "session", name: name.to_owned() }
}
