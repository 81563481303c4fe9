//! The built-in handlers: how the installation keeps house as ordinary jobs, on any worker.
//!
//! Every worker has them, under names that nobody else's handlers may have ([`sched_model::domain::built_in`]). They use the functions that
//! the leader's own tasks use and read from the database what schedulers were told about retention, never from settings of their worker. Each
//! works in short transactions on a connection of its own and stops between two of them when it is cancelled; one that dies has done whole
//! steps, and the next run does the rest.

mod archive;
mod backup;
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

/// Where archives, backups and e-mail go. What is `None` is not set, and the job that needs it says so.
#[derive(Debug, Clone, Default)]
pub struct SystemSettings {
    /// Where history is archived.
    pub archive: Option<ArchiveTarget>,
    /// The folder of backups.
    pub backup_dir: Option<PathBuf>,
    /// How many backups are kept.
    pub backup_keep: u32,
    /// Where PostgreSQL's programs are; on the path of the worker where it is not said.
    pub pg_bin_dir: Option<PathBuf>,
    /// By which server e-mail is sent.
    pub mail: Option<Mailer>,
}

/// What the handlers work with.
#[derive(Debug)]
pub(crate) struct System {
    /// The way to the database.
    pub(crate) database: Database,
    /// The same for programs of PostgreSQL.
    pub(crate) database_url: SecretString,
    /// Certificates to trust besides those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// Where archives, backups and e-mail go.
    pub(crate) settings: SystemSettings,
    /// Sends requests, as for `http` functions.
    pub(crate) http: Arc<HttpHandler>,
    /// Opens secrets of tenants; `None` without a key file.
    pub(crate) secret_keys: Option<Arc<SecretKeys>>,
}

impl System {
    /// Adds the handlers.
    ///
    /// # Errors
    /// One of the names is taken, which the builder has seen to that it is not.
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

    /// A connection that is not one of the worker's own work.
    async fn conn(&self) -> Result<Conn, HandlerError> {
        Ok(self.database.dedicated().await?)
    }
}

/// What schedulers were told.
async fn told(conn: &mut Conn) -> Result<Housekeeping, HandlerError> {
    let told = housekeeping::told(conn).await?;
    told.ok_or_else(|| {
        HandlerError::new("no_leader_yet", "no scheduler has led yet and said how long things are kept")
    })
}
