//! API keys: the key of a request, looked up and verified.

use sched_model::Conn;
use sched_model::domain::identity::{ApiKey, Permissions};
use sched_model::domain::secret::SecretKeys;
use sched_model::identity::api_keys::{self, FoundKey, KeyRefusal};

use super::{BeforeTenant, Identity, TenantOfCaller};
use crate::error::ApiError;
use crate::state::ApiState;

/// The identity of a key, whose last use is recorded.
///
/// # Errors
/// [`ApiError::Unauthenticated`] for a key that is wrong, revoked, expired or inactive.
pub(super) async fn look_up(state: &ApiState, key: &ApiKey) -> Result<Identity, ApiError> {
    let found = state.recognise(&BeforeTenant(()), "find_api_key", async |conn: &mut Conn| {
        Ok(api_keys::find(conn, key.prefix()).await?)
    });
    let found = found.await?;
    let found = found.ok_or_else(|| ApiError::Unauthenticated(Some(KeyRefusal::Wrong.to_string())))?;
    let permissions = check_key(&found, key, state.ring())?;
    if found.is_to_be_touched {
        let tenant = TenantOfCaller(found.tenant);
        let touch = state.record(tenant, "touch_api_key", async |conn: &mut Conn| {
            api_keys::touch(conn, found.tenant, found.id).await
        });
        if let Err(error) = touch.await {
            tracing::warn!(error = error.with_causes(), "could not record the last use of a key");
        }
    }
    Ok(Identity::of_key(found, key.prefix(), permissions))
}

fn check_key(found: &FoundKey, key: &ApiKey, ring: Option<&SecretKeys>) -> Result<Permissions, ApiError> {
    found.verify(key, ring).map_err(|refusal| {
        let reason = match &refusal {
            KeyRefusal::Unverifiable(_) => {
                tracing::error!(api_key = key.prefix(), error = %refusal, "key could not be verified");
                KeyRefusal::Wrong.to_string()
            }
            KeyRefusal::Wrong | KeyRefusal::Revoked | KeyRefusal::Expired | KeyRefusal::Inactive => {
                refusal.to_string()
            }
        };
        ApiError::Unauthenticated(Some(reason))
    })
}
