//! The built-in handlers: housekeeping of the installation as ordinary jobs, on any worker.
//!
//! They read the retention settings of the schedulers from the database, never from the settings of
//! their worker. Each works in short transactions on a separate connection, and stops between two
//! of them when it is cancelled. If the process dies, the next run does the rest.

mod archive;
mod backup;
mod delivery_failure;
pub(crate) mod enabling;
mod mail;
mod notify;
mod registrations;
mod retention;

use std::path::PathBuf;
use std::sync::Arc;

use sched_model::Conn;
use sched_model::Database;
use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::domain::built_in;
use sched_model::domain::secret::SecretKeys;
use secrecy::SecretString;

use crate::handlers::http::HttpHandler;
use crate::handlers::native::{HandlerError, RegisterError, Registry};

pub use archive::ArchiveTarget;
pub use mail::{InvalidMailer, Mailer};

/// Settings of archives, backups and e-mail. The job that needs an unset one fails and names it.
#[derive(Debug, Clone, Default)]
pub struct SystemSettings {
    /// The storage of archived history.
    pub archive: Option<ArchiveTarget>,
    /// The folder of backups.
    pub backup_dir: Option<PathBuf>,
    /// How many backups are kept.
    pub backup_keep: u32,
    /// The folder of PostgreSQL's programs. The default is the worker's path.
    pub pg_bin_dir: Option<PathBuf>,
    /// The mail server for e-mail.
    pub mail: Option<Mailer>,
}

#[derive(Debug)]
pub(crate) struct System {
    pub(crate) database: Database,
    pub(crate) database_url: SecretString,
    /// In addition to those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) settings: SystemSettings,
    /// With the checks of `http` functions.
    pub(crate) http: Arc<HttpHandler>,
    /// `None` without a key file.
    pub(crate) secret_keys: Option<Arc<SecretKeys>>,
}

impl System {
    pub(crate) fn register(self, registry: &mut Registry) -> Result<(), RegisterError> {
        let system = Arc::new(self);
        macro_rules! add {
            ($name:expr, $run:path) => {{
                let system = system.clone();
                registry.add($name, move |ctx, args| {
                    let system = system.clone();
                    async move { $run(&system, &ctx, args).await }
                })?;
            }};
        }
        add!(built_in::ARCHIVE, archive::run);
        add!(built_in::BACKUP, backup::run);
        add!(built_in::NOTIFY, notify::run);
        add!(built_in::PARTITIONS, registrations::partitions);
        add!(built_in::RETENTION, retention::run);
        add!(built_in::STALE_INSTANCES, registrations::stale_instances);
        Ok(())
    }

    async fn conn(&self) -> Result<Conn, HandlerError> {
        Ok(self.database.dedicated().await?)
    }
}

/// The settings that the leader has stored.
async fn housekeeping_settings(conn: &mut Conn) -> Result<Housekeeping, HandlerError> {
    let settings = housekeeping::load(conn).await?;
    settings.ok_or_else(|| {
        HandlerError::new(
            "no_leader_yet",
            "no scheduler has been leader yet, so the retention settings are unknown",
        )
    })
}
