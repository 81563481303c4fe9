//! The caller: who it is, in which tenant, and what it may do; and their own password.
//!
//! A new password ends every session of its user, and gives the one that asks for it a new token. Who guesses at the old one is held back as
//! who guesses while signing in.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::identity::sign_ins;
use sched_model::identity::tenants;
use sched_model::{Conn, identity::audit};
use sched_wire::{Me, PasswordChange};
use secrecy::SecretString;

use super::sessions::{self, Place};
use super::users::{hash, read_with_secrets};
use crate::convert::identity::{check_password_change, me};
use crate::error::ApiError;
use crate::error::field_error::FieldError;
use crate::http::extract::{Body, NoParameters, Query};
use crate::http::reply::Reply;
use crate::identity::{self, Claim, FailedSignIn, Identity, Verdict};
use crate::routes::operations::auditing::people;
use crate::routes::{Answer, Id, State};

/// `GET /me`
pub(crate) async fn get(state: State, identity: Identity, _: Query<NoParameters>) -> Answer<Me> {
    let id = identity.tenant();
    let own =
        state.read(&identity, "show_me", async |conn: &mut Conn| Ok(tenants::by_id(conn, id).await?)).await?;
    Ok(web::Json(me(&identity, own)))
}

/// `PUT /me/password`
pub(crate) async fn change_password(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    sessions::as_person(&identity)?;
    let asked: PasswordChange = read_with_secrets(body.required()?, &["old_password", "new_password"])?;
    let (old, new) = (SecretString::from(asked.old_password), SecretString::from(asked.new_password));
    check_password_change(&old, &new).map_err(ApiError::Refused)?;
    let one = |pointer: &str, message: &str| ApiError::Refused(vec![FieldError::invalid(pointer, message)]);
    let known = identity.known();
    let (Some(user), Some(email)) = (known.user, known.email.as_deref()) else {
        return Err(one("", "a key of the tenant has no password; show that you are a user"));
    };
    let place = Place::of(&http, &state);
    let claim = Claim { email, password: old.clone(), address: place.address };
    let wrong = || one("/old_password", "is not the password of this user");
    let (verified, subjects) = match identity::verify(&state, claim).await? {
        Verdict::Right { account, verified, subjects } if account.user == user => (verified, subjects),
        Verdict::Right { .. } => return Err(wrong()),
        Verdict::Wrong { account, failures } => {
            if let Some(account) = account {
                let attempt = FailedSignIn { failures: Some(failures), address: place.address };
                let tenants = [identity.tenant()];
                identity::record_failed_sign_in(&state, &tenants, &account, attempt, &request.0.request)
                    .await;
            }
            return Err(wrong());
        }
    };
    let new_hash = hash(&state, new).await?;
    let session = known.session.map(|_| {
        let token = sessions::new_token();
        (identity.with_session(token.id()), token)
    });
    let by = &request.0;
    let written = state
        .write(&identity, by, "change_password", async |conn: &mut Conn| {
            if !sign_ins::change_password(conn, user, &verified, &new_hash).await? {
                return Err(wrong());
            }
            sign_ins::forgive(conn, &subjects).await?;
            let entry = people::of_own_password(identity.tenant(), user, email, by);
            audit::write(conn, &[entry]).await?;
            let reply = match &session {
                Some((identity, token)) => {
                    Reply::ok(&sessions::begin(conn, &state, identity, by, (token, &place)).await?)?
                }
                None => Reply::no_content(),
            };
            Ok::<_, ApiError>((reply, ()))
        })
        .await?;
    state.identities.forget_user(user);
    tracing::info!(user.id = %user, "A user changed their password.");
    match &session {
        Some((_, token)) => sessions::with_cookie(&state, written.response, token),
        None => Ok(written.response),
    }
}
