//! The secrets of one attempt: read from the database and opened, just before it runs.
//!
//! One statement for an attempt whose configuration names any, none for the others; nothing is kept for the next, so a new value
//! holds from the next attempt on. What cannot be had is the report of a failed attempt: a secret that does not exist or does not
//! open is told as such, and retries are the policy's business. A database that is away is nothing the attempt could help: it is handed back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sched_model::definitions::secrets::{self, SealedSecret};
use sched_model::domain::handler_config::MOST_SECRETS;
use sched_model::domain::secret::{KeyFileError, SecretKeys, named_secrets};
use sched_model::running::claims::Claimed;
use sched_model::{Database, DbResult};
use sched_runtime::config::SecretsSettings;
use sched_runtime::private_file::{self, PrivateFileError};
use secrecy::ExposeSecret as _;

use crate::handlers::{ErrorClass, MissingSecret, Report, Secrets};

/// Most bytes of all values of one attempt: each is looked for, in many forms, in all that the attempt gives back.
const MOST_BYTES: usize = 128 * 1024;

/// Why the key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// It is not to be trusted, or cannot be read.
    #[error("the file of secrets-key-file (SECRETS_KEY_FILE) cannot be used")]
    File(#[from] PrivateFileError),
    /// It holds something else.
    #[error("{path} of secrets-key-file (SECRETS_KEY_FILE) holds no keys", path = path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: KeyFileError,
    },
}

/// The keys of this worker, where it has a key file.
pub(crate) fn keys(settings: &SecretsSettings) -> Result<Option<SecretKeys>, KeysError> {
    let Some(path) = &settings.key_file else { return Ok(None) };
    let text = private_file::read(path)?;
    let keys = SecretKeys::parse(text.expose_secret());
    keys.map(Some).map_err(|source| KeysError::Keys { path: path.clone(), source })
}

/// The secrets that the configuration of a claimed dispatch names; else the report of why it cannot run.
pub(crate) async fn load(
    database: &Database,
    keys: Option<&SecretKeys>,
    claimed: &Claimed,
) -> Result<Secrets, Box<Report>> {
    let named = named_secrets(&claimed.handler_config).into_iter().map(|named| named.name);
    let names: Vec<String> = named.collect::<BTreeSet<_>>().into_iter().collect();
    if names.is_empty() {
        return Ok(Secrets::default());
    }
    let failed = |class, message: &str| Box::new(Report::failed(class, message));
    // A row may be older than the rule that refuses it.
    if names.len() > MOST_SECRETS {
        let message = format!("the function names {} secrets; the most is {MOST_SECRETS}", names.len());
        return Err(failed(ErrorClass::InvalidConfig, &message));
    }
    let Some(keys) = keys else {
        let message = "the function names secrets, and this worker has no SECRETS_KEY_FILE to open them with";
        return Err(failed(ErrorClass::SecretUnreadable, message));
    };
    let sealed = read(database, claimed, &names).await.map_err(|error| {
        tracing::warn!(
            job.name = claimed.job_name,
            error = error.with_causes(),
            "Reading the secrets of an attempt failed."
        );
        Box::new(Report::untried(&format!("the secrets could not be read: {error}")))
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

async fn read(database: &Database, claimed: &Claimed, names: &[String]) -> DbResult<Vec<SealedSecret>> {
    let mut conn = database.conn().await?;
    secrets::of_attempt(&mut conn, claimed.tenant_id, claimed.job_id, names).await
}

#[cfg(test)]
mod tests {
    use sched_model::DatabaseSettings;
    use sched_model::domain::secret::{KEY_BYTES, key_line};
    use serde_json::json;

    use super::*;
    use crate::attempt::executor::tests::claimed;

    #[tokio::test]
    async fn a_database_that_is_away_is_no_failure_of_the_attempt() {
        let database = Database::new(&DatabaseSettings::new("postgres://nobody@127.0.0.1:1/none", "test"));
        let keys = SecretKeys::parse(key_line("k", &[1; KEY_BYTES]).expose_secret()).unwrap();
        let claimed = Claimed {
            handler_config: json!({"program": "true", "env": {"PASSWORD": {"secret": "one"}}}),
            ..claimed()
        };
        let report = load(&database.unwrap(), Some(&keys), &claimed).await.unwrap_err();
        assert!(report.untried, "{report:?}");
        assert_eq!(report.error_class, Some(ErrorClass::Worker));
        let waits = report.retry_after.unwrap().as_secs_f64();
        assert!((5.0..=30.0).contains(&waits), "{waits}");
    }
}
