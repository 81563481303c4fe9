//! Connections: a pool, and dedicated ones for heartbeats and listening, which must not wait behind
//! the pool's work.
//!
//! Every connection is created here, with TLS if the URL requires it. `statement_timeout`,
//! `lock_timeout` and `idle_in_transaction_session_timeout` bound the effect of a hung peer.
//! Creating, waiting for and checking a connection have timeouts too. A dead connection is detected
//! when it is taken from the pool.

use std::time::Duration;

use deadpool::managed::{QueueMode, TimeoutType, Timeouts};
use diesel::ConnectionError;
use diesel_async::pooled_connection::deadpool::{Object, Pool, PoolError};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use futures_util::FutureExt;

pub use crate::connection::hosts::InvalidUrl;
use crate::connection::hosts::{NoServer, Servers};
use crate::{Conn, DbError, DbResult};

/// Default of the longest pause between two statements of one transaction
/// ([`DatabaseSettings::idle_in_transaction`]).
///
/// A leader that freezes inside its tick holds the lock that a take-over needs. This timeout ends
/// it well within the target time of a failover.
pub const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(3);

/// Comparisons: a busy pooler may give two connections different sessions by chance.
const SESSION_LOOKS: u32 = 5;

/// How to reach the database, and its timeouts.
#[derive(Clone)]
pub struct DatabaseSettings {
    /// `postgresql://user:password@host[,host]/database?options`. Uses the host that accepts writes.
    pub url: String,
    /// The `application_name` in the server's views.
    pub application: String,
    pub pool_size: usize,
    /// Maximum wait for a connection, new or pooled.
    pub connect_timeout: Duration,
    pub statement_timeout: Duration,
    pub lock_timeout: Duration,
    /// Maximum pause between two statements of one transaction.
    pub idle_in_transaction: Duration,
    /// PEM file of certificates to trust in addition to those of the system.
    pub ca_file: Option<std::path::PathBuf>,
    /// Whether statements use generic plans, planned once per connection and not per parameter
    /// values. For programs whose statements all have one good plan, as statements with array
    /// parameters do: planning a claim takes longer than running it.
    pub generic_plans: bool,
    /// Role of the pool's connections; `None` for the login's own. Every transaction sets it again
    /// ([`crate::connection::row_security::Scope`]), because a pooler or a statement may have reset it in
    /// between.
    pub role: Option<&'static str>,
}

impl std::fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseSettings").field("application", &self.application).finish_non_exhaustive()
    }
}

impl DatabaseSettings {
    /// Settings for `url` with the defaults of every daemon.
    #[must_use]
    pub fn new(url: impl Into<String>, application: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            application: application.into(),
            pool_size: 5,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(3),
            idle_in_transaction: IDLE_IN_TRANSACTION,
            ca_file: None,
            generic_plans: false,
            role: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidDatabaseSettings {
    #[error("the database URL is invalid; expected postgresql://user:password@host/database")]
    Url(#[source] InvalidUrl),
    #[error("the certificate file {path} cannot be used")]
    Certificates {
        path: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
    #[error("the connection pool cannot be set up")]
    Pool(#[source] deadpool::managed::BuildError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatus {
    pub most: usize,
    pub open: usize,
    pub in_use: usize,
    pub waiting: usize,
}

/// A connection that returns to its pool when dropped.
pub type Pooled = Object<AsyncPgConnection>;

#[derive(Clone)]
pub struct Database {
    pool: Pool<AsyncPgConnection>,
    connector: Connector,
    role: Option<&'static str>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("pool", &self.pool.status()).finish_non_exhaustive()
    }
}

impl Database {
    /// Prepares the pool; opens no connection yet.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn new(settings: &DatabaseSettings) -> Result<Self, InvalidDatabaseSettings> {
        let connector = Connector::new(settings)?;
        let mut config = ManagerConfig::default();
        config.recycling_method = RecyclingMethod::Fast;
        let (in_pool, role) = (connector.clone(), settings.role);
        config.custom_setup = Box::new(move |_url| {
            let connector = in_pool.clone();
            async move { connector.connect_as(role).await }.boxed()
        });
        let manager =
            AsyncDieselConnectionManager::<AsyncPgConnection>::new_with_config(settings.url.clone(), config);
        let pool = Pool::builder(manager)
            .max_size(settings.pool_size)
            // The last used connection has its statements prepared and planned.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(settings.connect_timeout))
            .create_timeout(Some(settings.connect_timeout))
            .recycle_timeout(Some(settings.connect_timeout))
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(InvalidDatabaseSettings::Pool)?;
        Ok(Self { pool, connector, role: settings.role })
    }

    /// Host and port of each server in the URL; a Unix socket counts as `localhost`.
    #[must_use]
    pub fn servers(&self) -> Vec<(String, u16)> {
        self.connector.servers.places()
    }

    pub async fn conn(&self) -> DbResult<Pooled> {
        self.pool.get().await.map_err(|error: PoolError| DbError::Unavailable(Box::new(error)))
    }

    /// An idle connection of the pool, or a new one if there is room; `None` if all are in use.
    pub async fn free_conn(&self) -> DbResult<Option<Pooled>> {
        let at_once = Timeouts { wait: Some(Duration::ZERO), ..self.pool.timeouts() };
        match self.pool.timeout_get(&at_once).await {
            Ok(conn) => Ok(Some(conn)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => Ok(None),
            Err(error) => Err(DbError::Unavailable(Box::new(error))),
        }
    }

    #[must_use]
    pub fn pool_status(&self) -> PoolStatus {
        let status = self.pool.status();
        PoolStatus {
            most: status.max_size,
            open: status.size,
            in_use: status.size.saturating_sub(status.available),
            waiting: status.waiting,
        }
    }

    #[must_use]
    pub fn role(&self) -> Option<&'static str> {
        self.role
    }

    /// Opens a connection outside the pool, for heartbeats and listening, which must not wait for
    /// work. Its role is that of the login.
    pub async fn dedicated(&self) -> DbResult<Conn> {
        Ok(self.connector.connect().await?)
    }

    /// Whether two concurrent connections share one session of the server, as through a pooler in
    /// transaction mode. A busy pooler may hide it.
    pub async fn shares_sessions(&self) -> DbResult<bool> {
        let shares_sessions =
            tokio::time::timeout(self.connector.timeout * 2, self.connector.shares_sessions()).await;
        let shares_sessions = shares_sessions.map_err(|elapsed| DbError::Unavailable(Box::new(elapsed)))?;
        shares_sessions.map_err(|error| DbError::Unavailable(Box::new(error)))
    }

    pub fn close(&self) {
        self.pool.close();
    }
}

type Connection = tokio_postgres::Connection<
    tokio_postgres::Socket,
    <tokio_postgres_rustls::MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<
        tokio_postgres::Socket,
    >>::Stream,
>;

#[derive(Clone)]
struct Connector {
    servers: Servers,
    tls: tokio_postgres_rustls::MakeRustlsConnect,
    timeout: Duration,
    session: String,
}

impl Connector {
    fn new(settings: &DatabaseSettings) -> Result<Self, InvalidDatabaseSettings> {
        let servers = Servers::of(&known_words(&settings.url), settings.connect_timeout, |config| {
            config.application_name(&settings.application);
            config.keepalives_idle(Duration::from_secs(10));
            config.tcp_user_timeout(Duration::from_secs(20));
        });
        Ok(Self {
            servers: servers.map_err(InvalidDatabaseSettings::Url)?,
            tls: tokio_postgres_rustls::MakeRustlsConnect::new(tls_config(settings)?),
            timeout: settings.connect_timeout,
            session: session_settings(settings),
        })
    }

    async fn connect(&self) -> Result<Conn, ConnectionError> {
        tokio::time::timeout(self.timeout, self.connect_without_limit()).await.map_err(|elapsed| {
            ConnectionError::BadConnection(format!("no connection within {:?}: {elapsed}", self.timeout))
        })?
    }

    async fn connect_as(&self, role: Option<&'static str>) -> Result<Conn, ConnectionError> {
        let mut conn = self.connect().await?;
        if let Some(role) = role {
            let role = format!("SET ROLE {role}");
            let taken = tokio::time::timeout(self.timeout, conn.batch_execute(&role)).await;
            let late = |elapsed| {
                ConnectionError::BadConnection(format!("no role within {:?}: {elapsed}", self.timeout))
            };
            taken.map_err(late)?.map_err(ConnectionError::CouldntSetupConfiguration)?;
        }
        Ok(conn)
    }

    /// Uses simple queries: extended ones need separate sessions, the subject of this test.
    async fn shares_sessions(&self) -> Result<bool, NoServer> {
        let (one, drives_one) = self.connection().await?;
        let (two, drives_two) = self.connection().await?;
        let asks = async {
            for _ in 0..SESSION_LOOKS {
                if process_of(&one).await? == process_of(&two).await? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        // A connection ends when its client is dropped, or with an error.
        let broken = async |ended: Result<(), tokio_postgres::Error>| match ended {
            Err(error) => Err(error),
            Ok(()) => std::future::pending().await,
        };
        let answer = tokio::select! {
            answer = asks => answer,
            error = async { broken(drives_one.await).await } => error,
            error = async { broken(drives_two.await).await } => error,
        };
        answer.map_err(NoServer::Refused)
    }

    async fn connection(&self) -> Result<(tokio_postgres::Client, Connection), NoServer> {
        let connect = |config: tokio_postgres::Config| {
            let tls = self.tls.clone();
            async move { config.connect(tls).await }
        };
        self.servers.first(connect).await
    }

    async fn connect_without_limit(&self) -> Result<Conn, ConnectionError> {
        let (client, connection) =
            self.connection().await.map_err(|error| ConnectionError::BadConnection(with_causes(&error)))?;
        let mut conn = AsyncPgConnection::try_from_client_and_connection(client, connection).await?;
        conn.batch_execute(&self.session).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    }
}

async fn process_of(client: &tokio_postgres::Client) -> Result<Option<String>, tokio_postgres::Error> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await?;
    Ok(answer.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// Rewrites the URL for the driver: `sslmode=verify-ca` and `verify-full` become `require`, because
/// certificates are always verified here.
fn known_words(url: &str) -> String {
    url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require")
}

/// The settings of every session. The role is that of the login, and not one that the API left in a
/// session that a pooler hands on. Messages are in English, because the driver hides some error
/// codes (see [`super::error`]); a role that may not set them keeps its own. JIT is off: compiling
/// these short statements would take far longer than running them.
fn session_settings(settings: &DatabaseSettings) -> String {
    format!(
        "RESET ROLE; SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET TIME ZONE 'UTC'; SET jit = off; SET plan_cache_mode = {}; \
         SELECT set_config('lc_messages', 'C', false) WHERE (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)",
        settings.statement_timeout.as_millis(),
        settings.lock_timeout.as_millis(),
        settings.idle_in_transaction.min(settings.statement_timeout).as_millis(),
        if settings.generic_plans { "force_generic_plan" } else { "auto" },
    )
}

fn tls_config(settings: &DatabaseSettings) -> Result<rustls::ClientConfig, InvalidDatabaseSettings> {
    let mut roots = rustls::RootCertStore::empty();
    // A host without certificates can still reach a database that needs none.
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = &settings.ca_file {
        add_certificates(&mut roots, path).map_err(|source| InvalidDatabaseSettings::Certificates {
            path: path.display().to_string(),
            source,
        })?;
    }
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(InvalidDatabaseSettings::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn add_certificates(
    roots: &mut rustls::RootCertStore,
    path: &std::path::Path,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let mut found = 0_usize;
    for certificate in CertificateDer::pem_file_iter(path)? {
        roots.add(certificate?)?;
        found += 1;
    }
    if found == 0 { Err("the file has no PEM certificate".into()) } else { Ok(()) }
}

/// An error and its causes on one line, without a cause that the text already ends with.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let next = cause.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = cause.source();
    }
    text
}
