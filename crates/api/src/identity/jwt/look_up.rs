//! The user that a token of an identity provider identifies.

use sched_model::domain::identity::jwt::{JwtSubject, UnverifiedJwt};
use sched_model::domain::identity::{Permissions, Principal, scopes_of};
use sched_model::identity::users::{self, FoundMember};
use sched_model::{Conn, connection::database_clock, identity::tenants};

use super::{Keys, Tokens};
use crate::error::ApiError;
use crate::identity::before_tenant::BeforeTenant;
use crate::identity::caller::Identity;
use crate::state::ApiState;

pub(in crate::identity) async fn look_up(
    state: &ApiState,
    tokens: &Tokens,
    token: UnverifiedJwt<'_>,
) -> Result<Identity, ApiError> {
    let unbelieved = |error: &dyn std::error::Error| ApiError::Unauthenticated(Some(error.to_string()));
    let id = token.key_id().map_err(|error| unbelieved(&error))?;
    let published;
    let keys = match &tokens.keys {
        Keys::Secret(key) => std::slice::from_ref(key),
        Keys::Set(set) => {
            published = set.keys_for(id.as_deref()).await?;
            &published
        }
    };
    // Before any query of the database: every client can send an unsigned token.
    let signed = token.signed(&tokens.rules, keys).map_err(|error| unbelieved(&error))?;
    let this = BeforeTenant(());
    let now = state
        .recognise(&this, "read_clock", async |conn: &mut Conn| Ok(database_clock::now(conn).await?))
        .await?;
    let subject = signed.verify_claims(&tokens.rules, now).map_err(|error| unbelieved(&error))?;
    let slug = subject.tenant.as_deref().unwrap_or(tenants::DEFAULT_TENANT);
    // PostgreSQL rejects a NUL.
    let found = match subject.email.contains('\0') || slug.contains('\0') {
        true => None,
        false => {
            let found = state.recognise(&this, "find_member", async |conn: &mut Conn| {
                Ok(users::member_of(conn, &subject.email, slug).await?)
            });
            found.await?
        }
    };
    let found = found.filter(|found| found.is_active).ok_or_else(|| {
        // One error for both cases: a holder of a token must not learn which tenants and users
        // exist.
        ApiError::Unauthenticated(Some(
            "the user of the token is not an active member of its tenant".to_owned(),
        ))
    })?;
    let permissions = permissions(&found, &subject);
    Ok(Identity::of_member(found, permissions, !subject.scopes.is_empty()))
}

fn permissions(found: &FoundMember, subject: &JwtSubject) -> Permissions {
    let principal = Principal::Member { role: found.role, is_system_operator: found.is_system_operator };
    principal.permissions(scopes_of(&subject.scopes))
}
