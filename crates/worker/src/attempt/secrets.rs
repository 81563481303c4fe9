//! The secrets of one attempt: read and opened just before it runs.
//!
//! Nothing is cached, so a new value takes effect with the next attempt. A missing or unreadable
//! secret fails the attempt. If the database is unavailable, the attempt is released.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sched_model::domain::handler_config::MOST_SECRETS;
use sched_model::domain::secret::{KeyFileError, SecretKeys, named_secrets};
use sched_runtime::config::SecretsSettings;
use sched_runtime::private_file::{self, PrivateFileError};
use secrecy::ExposeSecret as _;

use crate::backend::{Backend, Claimed, SealedSecret};
use crate::handlers::{ErrorClass, MissingSecret, Report, Secrets};

/// Maximum bytes of all values of one attempt: all output is searched for each of them, in many
/// forms.
const MOST_BYTES: usize = 128 * 1024;

/// The key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file is not private, or unreadable.
    #[error("the file of secrets-key-file (SECRETS_KEY_FILE) cannot be used")]
    File(#[from] PrivateFileError),
    /// The file holds no valid keys.
    #[error("{path} of secrets-key-file (SECRETS_KEY_FILE) holds no keys", path = path.display())]
    Keys {
        path: PathBuf,
        /// The cause.
        #[source]
        source: KeyFileError,
    },
}

pub(crate) fn keys(settings: &SecretsSettings) -> Result<Option<SecretKeys>, KeysError> {
    let Some(path) = &settings.key_file else { return Ok(None) };
    let text = private_file::read(path)?;
    let keys = SecretKeys::parse(text.expose_secret());
    keys.map(Some).map_err(|source| KeysError::Keys { path: path.clone(), source })
}

/// The error is the report of an attempt that cannot run.
pub(crate) async fn load(
    backend: &Backend,
    keys: Option<&SecretKeys>,
    claimed: &Claimed,
) -> Result<Secrets, Box<Report>> {
    let named = named_secrets(&claimed.handler_config).into_iter().map(|named| named.name);
    let names: Vec<String> = named.collect::<BTreeSet<_>>().into_iter().collect();
    if names.is_empty() {
        return Ok(Secrets::default());
    }
    let failed = |class, message: &str| Box::new(Report::failed(class, message));
    // The row may be older than the limit.
    if names.len() > MOST_SECRETS {
        let message = format!("the function names {} secrets; the most is {MOST_SECRETS}", names.len());
        return Err(failed(ErrorClass::InvalidConfig, &message));
    }
    let Some(keys) = keys else {
        let message = "the function names secrets, but this worker has no key file; set SECRETS_KEY_FILE";
        return Err(failed(ErrorClass::SecretUnreadable, message));
    };
    let read = backend.secrets(claimed.tenant_id, claimed.job_id, &names).await;
    let sealed = read.map_err(|error| {
        tracing::warn!(
            job.name = claimed.job.name,
            error = error.with_causes(),
            "failed to read the secrets of an attempt"
        );
        Box::new(Report::untried(&format!("failed to read the secrets: {error}")))
    })?;
    if let Some(name) = names.iter().find(|name| !sealed.iter().any(|secret| secret.name == **name)) {
        let missing = MissingSecret { name: name.clone() };
        return Err(failed(ErrorClass::MissingSecret, &missing.to_string()));
    }
    let open = |secret: &SealedSecret| match secret.open(keys) {
        Ok(value) => Ok((secret.name.clone(), value.into_inner())),
        Err(error) => {
            let message = format!("secret {:?} cannot be opened: {error}", secret.name);
            Err(failed(ErrorClass::SecretUnreadable, &message))
        }
    };
    let secrets: Secrets = sealed.iter().map(open).collect::<Result<_, _>>()?;
    if secrets.bytes() > MOST_BYTES {
        let message = format!(
            "the secrets of the function are {} bytes together; the most is {MOST_BYTES}",
            secrets.bytes()
        );
        return Err(failed(ErrorClass::InvalidConfig, &message));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use sched_model::domain::secret::{KEY_BYTES, key_line};
    use serde_json::json;

    use super::*;
    use crate::attempt::fixture::claimed;

    #[tokio::test]
    async fn unavailable_database_releases_the_attempt() {
        let keys = SecretKeys::parse(key_line("k", &[1; KEY_BYTES]).expose_secret()).unwrap();
        let claimed = Claimed {
            handler_config: json!({"program": "true", "env": {"PASSWORD": {"secret": "one"}}}),
            ..claimed()
        };
        let report = load(&Backend::unreachable(), Some(&keys), &claimed).await.unwrap_err();
        assert!(report.untried, "{report:?}");
        assert_eq!(report.error_class, Some(ErrorClass::Worker));
        let waits = report.retry_after.unwrap().as_secs_f64();
        assert!((5.0..=30.0).contains(&waits), "{waits}");
    }
}
