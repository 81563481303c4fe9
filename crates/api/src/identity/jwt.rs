//! Tokens of an identity provider: the user that a token identifies.
//!
//! A token names the user and the tenant. The permissions come from the user's membership in the
//! database, so a provider can grant no more than the owners of the tenant have granted. A claim
//! `sched_scope` limits a token as scopes limit an API key.

mod key_set;

use sched_model::domain::identity::jwt::{JwtRules, JwtSubject, UnverifiedJwt, VerifyingKey};
use sched_model::domain::identity::{Permissions, Standing, scopes_of};
use sched_model::identity::users::{self, FoundMember};
use sched_model::{Conn, connection::database_clock, identity::tenants};
use sched_runtime::exit::BoxError;
use sched_runtime::private_file;
use secrecy::{ExposeSecret as _, SecretString};

use super::{BeforeTenant, Identity};
use crate::config::{JwtKeys, JwtSettings};
use crate::error::ApiError;
use crate::state::ApiState;
use key_set::KeySet;

/// The rules and the keys that verify tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    rules: JwtRules,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    Secret(VerifyingKey),
    Set(KeySet),
}

impl Tokens {
    /// Reads the secret, if tokens are signed with one. Fetches no keys yet.
    ///
    /// # Errors
    /// If the file cannot be used, or TLS cannot be set up.
    pub(crate) fn new(settings: JwtSettings) -> Result<Self, BoxError> {
        let keys = match settings.keys {
            JwtKeys::SecretFile(path) => {
                let text = private_file::read(&path)?;
                let line = text.expose_secret();
                let line = line.strip_suffix('\n').unwrap_or(line);
                let secret = SecretString::from(line.strip_suffix('\r').unwrap_or(line).to_owned());
                Keys::Secret(
                    VerifyingKey::secret(&secret).map_err(|what| format!("{}: {what}", path.display()))?,
                )
            }
            JwtKeys::Set(url) => Keys::Set(KeySet::new(url, settings.rules.algorithm)?),
        };
        Ok(Self { rules: settings.rules, keys })
    }
}

/// Finds the user that a token identifies.
///
/// # Errors
/// If the token is not valid, its user has no membership, or the keys or the database cannot be
/// reached.
pub(super) async fn look_up(
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
    let subject = signed.judge(&tokens.rules, now).map_err(|error| unbelieved(&error))?;
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
            "whom the token names is no active member of the tenant it names".to_owned(),
        ))
    })?;
    let permissions = permissions(&found, &subject);
    Ok(Identity::of_member(found, permissions, !subject.scopes.is_empty()))
}

fn permissions(found: &FoundMember, subject: &JwtSubject) -> Permissions {
    let standing = Standing::Member { role: found.role, is_system_operator: found.is_system_operator };
    standing.permissions(scopes_of(&subject.scopes))
}
