//! The caller: identity, tenant, permissions, and the change of its own password.
//!
//! A new password ends every session of the user. The session that requests it gets a new token.
//! Wrong old passwords count as failed sign-ins, with the same limits.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::identity::sign_ins;
use sched_model::identity::tenants;
use sched_model::{Conn, identity::audit};
use sched_wire::{Me, PasswordChange};
use secrecy::SecretString;

use super::sessions::{self, ClientInfo, SessionStart};
use super::users::{hash, read_with_secrets};
use crate::convert::identity::{check_password_change, me};
use crate::error::ApiError;
use crate::error::field_error::FieldError;
use crate::http::call::Call;
use crate::http::extract::Body;
use crate::http::reply::Reply;
use crate::identity::{self, Claim, FailedSignIn, Identity, PasswordCheck};
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, State};

/// `GET /me`
pub(crate) async fn get(state: State, identity: Identity) -> Answer<Me> {
    let id = identity.tenant();
    let own =
        state.read(&identity, "show_me", async |conn: &mut Conn| Ok(tenants::by_id(conn, id).await?)).await?;
    Ok(web::Json(me(&identity, own)))
}

/// `PUT /me/password`
pub(crate) async fn change_password(
    call: Call,
    http: HttpRequest,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    sessions::as_person(&call.identity)?;
    let change: PasswordChange = read_with_secrets(body.required()?, &["old_password", "new_password"])?;
    let (old, new) = (SecretString::from(change.old_password), SecretString::from(change.new_password));
    check_password_change(&old, &new).map_err(ApiError::Refused)?;
    let one = |pointer: &str, message: &str| ApiError::Refused(vec![FieldError::invalid(pointer, message)]);
    let caller = call.identity.caller();
    let (Some(user), Some(email)) = (caller.user, caller.email.as_deref()) else {
        return Err(one("", "a key of the tenant has no password; show that you are a user"));
    };
    let client = ClientInfo::of(&http, &call.state);
    let claim = Claim { email, password: old.clone(), address: client.address };
    let wrong = || one("/old_password", "is not the password of this user");
    let (verified, subjects) = match identity::verify(&call.state, claim).await? {
        PasswordCheck::Right { account, verified, subjects } if account.user == user => (verified, subjects),
        PasswordCheck::Right { .. } => return Err(wrong()),
        PasswordCheck::Wrong { account, failures } => {
            if let Some(account) = account {
                let (failures, request) = (Some(failures), call.by.request.clone());
                let attempt = FailedSignIn { account, failures, address: client.address, request };
                identity::record_failed_sign_in(&call.state, &[call.tenant()], &attempt).await;
            }
            return Err(wrong());
        }
    };
    let new_hash = hash(&call.state, new).await?;
    let session = caller.session.map(|_| {
        let token = sessions::new_token();
        (call.identity.with_session(token.id()), token)
    });
    let by = &call.by;
    let written = call
        .write("change_password", async |conn: &mut Conn| {
            if !sign_ins::change_password(conn, user, &verified, &new_hash).await? {
                return Err(wrong());
            }
            sign_ins::reset_failures(conn, &subjects).await?;
            let entry = people::of_own_password(call.tenant(), user, email, by);
            audit::write(conn, &[entry]).await?;
            let reply = match &session {
                Some((identity, token)) => {
                    let start = SessionStart { state: &call.state, identity, by, token, client: &client };
                    Reply::ok(&start.write(conn).await?)?
                }
                None => Reply::no_content(),
            };
            Ok::<_, ApiError>((reply, ()))
        })
        .await?;
    call.state.identities.forget_user(user);
    tracing::info!(user.id = %user, "password changed");
    match &session {
        Some((_, token)) => sessions::with_cookie(&call.state, written.response, token),
        None => Ok(written.response),
    }
}
