//! A database per test.
//!
//! Each is a copy of a template, which the first test migrates; an advisory lock blocks the other
//! tests until then. The template gets its final name when it is complete, so a crash during the
//! migration leaves no incomplete template. The end of a test drops its copy, even after a panic.
//!
//! There are two templates. In one the superuser owns the tables, as in `schedctl dev`. The other is
//! an installation as documented, with an owner and a [`Login`] per daemon.

use std::{error::Error, thread};

use sched_model::{Database, DatabaseSettings, connection::migrations};
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::cluster::admin_url;
use crate::login::{self, Login};

const TEMPLATE: &str = "sched_template";
const INSTALLED_TEMPLATE: &str = "sched_installed_template";
/// Advisory lock for the creation of the template: "test" in ASCII.
const TEMPLATE_LOCK: i64 = 0x74_65_73_74;

pub type AnyError = Box<dyn Error + Send + Sync>;

/// The database of one test. A drop removes it.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    is_on_shared_server: bool,
}

impl TestDatabase {
    /// A database with the whole schema and its seed rows.
    ///
    /// # Panics
    ///
    /// If there is no server or the migrations fail.
    pub async fn new() -> Self {
        static TEMPLATE_MADE: OnceCell<()> = OnceCell::const_new();
        TEMPLATE_MADE.get_or_init(|| make_template(TEMPLATE, Owner::Superuser)).await;
        // Copying files is faster than logging pages while nothing is synced to disk.
        Self::create(&format!("TEMPLATE {TEMPLATE} STRATEGY file_copy")).await
    }

    /// As [`Self::new`], with an owner that is not a superuser and the logins of the daemons.
    /// [`Self::url`] is that of the superuser.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub async fn installed() -> Self {
        static TEMPLATE_MADE: OnceCell<()> = OnceCell::const_new();
        TEMPLATE_MADE.get_or_init(|| make_template(INSTALLED_TEMPLATE, Owner::Login)).await;
        let owner = Login::Owner.name();
        Self::create(&format!("OWNER {owner} TEMPLATE {INSTALLED_TEMPLATE} STRATEGY file_copy")).await
    }

    /// A database without a schema.
    ///
    /// # Panics
    ///
    /// If there is no server.
    pub async fn empty() -> Self {
        Self::create("").await
    }

    async fn create(how: &str) -> Self {
        let name = format!("test_{}", Uuid::now_v7().simple());
        let statement = format!("CREATE DATABASE {name} {how}");
        let admin = blocking(admin_url).await;
        let created = blocking(move || execute(admin, &statement)).await;
        created.unwrap_or_else(|error| panic!("cannot create {name}: {}", causes(&*error)));
        Self { url: url_of(admin, &name), name, is_on_shared_server: true }
    }

    /// A database as [`Self::installed`] on the test's own server, which removes the database.
    pub(crate) async fn on_own_server(admin: String) -> Self {
        let name = "sched".to_owned();
        let url = url_of(&admin, &name);
        let made = blocking({
            let name = name.clone();
            move || -> Result<(), AnyError> { runtime()?.block_on(install(&admin, &name)) }
        });
        made.await.unwrap_or_else(|error| panic!("cannot create {name}: {}", causes(&*error)));
        Self { name, url, is_on_shared_server: false }
    }

    /// A database that another owner creates and removes.
    pub(crate) fn reached_by(url: String, name: &str) -> Self {
        Self { name: name.to_owned(), url, is_on_shared_server: false }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of a login of [`Self::installed`].
    #[must_use]
    pub fn url_of(&self, login: Login) -> String {
        login.in_url(&self.url)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A new connection for plain SQL.
    ///
    /// # Panics
    ///
    /// If the server rejects the connection.
    pub async fn client(&self) -> Client {
        connect(&self.url)
            .await
            .unwrap_or_else(|error| panic!("cannot connect to {}: {}", self.name, causes(&*error)))
    }

    /// The connection of the daemons, with their default settings.
    ///
    /// # Panics
    ///
    /// If the settings are rejected.
    pub fn database(&self) -> Database {
        database_at(&self.url).unwrap_or_else(|error| panic!("cannot use {}: {}", self.name, causes(&*error)))
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if !self.is_on_shared_server {
            return;
        }
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let admin = admin_url();
        // A runtime may be running on this thread.
        let dropped = thread::spawn(move || execute(admin, &statement)).join();
        if let Ok(Err(error)) = dropped {
            // A leftover database is removed with the server.
            eprintln!("cannot drop {}: {}", self.name, causes(&*error));
        }
    }
}

/// Which role owns the tables of a template.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Superuser,
    Login,
}

async fn make_template(name: &'static str, owner: Owner) {
    let made =
        blocking(move || -> Result<(), AnyError> { runtime()?.block_on(make_missing_template(name, owner)) });
    made.await.unwrap_or_else(|error| panic!("no template: {}", causes(&*error)));
}

async fn make_missing_template(name: &str, owner: Owner) -> Result<(), AnyError> {
    let admin = admin_url();
    let client = connect(admin).await?;
    client.batch_execute(&format!("SELECT pg_advisory_lock({TEMPLATE_LOCK})")).await?;
    let exists = client.query_opt("SELECT FROM pg_database WHERE datname = $1", &[&name]).await?;
    if exists.is_some() {
        return Ok(());
    }
    let new = format!("{name}_new");
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {new} WITH (FORCE)")).await?;
    match owner {
        Owner::Login => install(admin, &new).await?,
        Owner::Superuser => {
            client.batch_execute(&format!("CREATE DATABASE {new}")).await?;
            migrate(url_of(admin, &new)).await?;
        }
    }
    client.batch_execute(&format!("ALTER DATABASE {new} RENAME TO {name}")).await?;
    Ok(())
}

/// Creates a database as [`TestDatabase::installed`]: the roles, the logins and the whole schema.
/// `admin` is the URL of a superuser.
///
/// # Errors
///
/// If the server rejects a statement.
pub async fn install(admin: &str, name: &str) -> Result<(), AnyError> {
    let client = connect(admin).await?;
    client.batch_execute(login::CREATE).await?;
    client.batch_execute(&format!("CREATE DATABASE {name} OWNER {}", Login::Owner.name())).await?;
    migrate(Login::Owner.in_url(&url_of(admin, name))).await
}

/// The end of the separate runtime closes every connection: a template must have none.
async fn migrate(url: String) -> Result<(), AnyError> {
    blocking(move || -> Result<(), AnyError> {
        runtime()?
            .block_on(async { migrations::up(&database_at(&url)?).await.map(drop).map_err(AnyError::from) })
    })
    .await
}

fn database_at(url: &str) -> Result<Database, AnyError> {
    Ok(Database::new(&DatabaseSettings::new(url, "tests"))?)
}

fn execute(url: &str, statement: &str) -> Result<(), AnyError> {
    runtime()?.block_on(async { Ok(connect(url).await?.batch_execute(statement).await?) })
}

/// A connection for plain SQL.
///
/// # Errors
///
/// If the server rejects the connection.
pub async fn connect(url: &str) -> Result<Client, AnyError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with its client; a failure shows in the client's next call"
    )]
    tokio::spawn(connection);
    Ok(client)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => panic!("preparing a test database failed: {error}"),
    }
}

fn url_of(admin: &str, database: &str) -> String {
    let server = admin.rsplit_once('/').map_or(admin, |(server, _)| server);
    format!("{server}/{database}")
}

fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
