//! `api-keys`: create, list, change, revoke.
//!
//! A new key is printed once, or written to a private file. The file is created first, so no key is
//! valid that could not be stored.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use sched_model::domain::identity::{Permission, check_display_name, check_environment};
use sched_model::domain::secret::SecretKeys;
use sched_model::identity::tenants::DEFAULT_TENANT;
use sched_runtime::exit::{self, ExitError};
use sched_runtime::private_file;
use sched_wire::{ApiKey, ApiKeyPatch, ApiKeySpec, NewApiKey, PageQuery};
use secrecy::ExposeSecret as _;

use super::super::{Session, print_more};
use super::direct::{self, DEV_ENVIRONMENT, KeyOrder};
use super::{Direct, DirectArgs};
use crate::endpoint::Source;
use crate::failure::{CommandResult, failure, usage};
use crate::local_install;
use crate::output::{Column, or_dash, print_notice, time};
use crate::values::{at_least_one, instant};

const ENVIRONMENT: &str = "live";

#[derive(Debug, Subcommand)]
pub(crate) enum ApiKeysCommand {
    /// Create a key for the caller, or with --of-tenant for the tenant; its text is shown once
    Create(Box<CreateArgs>),
    /// List keys, without their secret parts
    List {
        /// Maximum number of keys to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one key, without its secret part
    #[command(visible_alias = "show")]
    Get {
        /// Id of the key, or its prefix such as `sched_live_abcdefghijklmnop`
        key: String,
    },
    /// Rename a key, reduce its scopes or shorten its life; every API applies it within five
    /// seconds
    Set {
        /// Id of the key, or its prefix such as `sched_live_abcdefghijklmnop`
        key: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Revoke a key permanently; every API rejects it within five seconds
    Revoke {
        /// Id of the key, or its prefix such as `sched_live_abcdefghijklmnop`
        key: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Purpose of the key
    name: String,
    /// Permission, such as jobs:trigger; may be repeated; default: all permissions of its owner
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<Permission>,
    /// Expiry, such as 2027-01-31T00:00:00Z; default: never
    #[arg(long, value_name = "TIME", value_parser = instant)]
    expires_at: Option<DateTime<Utc>>,
    /// Create a key of the tenant, which survives the user that creates it; requires --scope
    #[arg(long, requires = "scopes")]
    of_tenant: bool,
    /// File for the key, with access only for its owner; the key is not printed then
    #[arg(long, value_name = "FILE")]
    to_file: Option<PathBuf>,
    /// Owner of the key, with --direct
    #[arg(long, value_name = "EMAIL", requires = "direct")]
    user: Option<String>,
    /// Tenant of the key, with --direct
    #[arg(long, value_name = "SLUG", default_value = DEFAULT_TENANT, requires = "direct")]
    tenant: String,
    /// Environment, the second part of the key, with --direct; must match the API; default `dev`
    /// for a running `schedctl dev`, else `live`
    #[arg(long, value_name = "WORD", env = "API_KEY_ENVIRONMENT")]
    environment: Option<String>,
    /// Key file of the secrets, with --direct; must match the API; default: that of the running
    /// `schedctl dev`, for its own database
    #[arg(long, value_name = "FILE", env = "SECRETS_KEY_FILE")]
    secrets_key_file: Option<PathBuf>,
    #[command(flatten)]
    direct: DirectArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ChangeArgs {
    /// Purpose of the key
    #[arg(long)]
    name: Option<String>,
    /// Remaining permission, one of the current ones; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<Permission>,
    /// New expiry, not after the current one, such as 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = instant)]
    expires_at: Option<DateTime<Utc>>,
}

const LIST: &[Column<ApiKey>] = &[
    Column::new("NAME", |key| key.name.clone()),
    Column::new("PREFIX", |key| key.prefix.clone()),
    Column::new("USER", |key| or_dash(key.user.as_deref())),
    Column::new("SCOPES", |key| or_dash(Some(key.scopes.join(" ")).filter(|scopes| !scopes.is_empty()))),
    Column::new("STATE", state),
    Column::new("LAST USED", |key| or_dash(key.last_used_at.map(time).as_deref())),
    Column::wide("CREATED", |key| time(key.created_at)),
    Column::wide("BY", |key| key.created_by.clone()),
    Column::wide("HASH KEY", |key| or_dash(key.hash_key.as_deref())),
    Column::wide("ID", |key| key.id.to_string()),
];

const CREATED: &[Column<NewApiKey>] = &[
    Column::new("Key", |created| created.key.clone()),
    Column::new("Prefix", |created| created.api_key.prefix.clone()),
    Column::new("Name", |created| created.api_key.name.clone()),
    Column::new("User", |created| or_dash(created.api_key.user.as_deref())),
    Column::new("Scopes", |created| {
        or_dash(Some(created.api_key.scopes.join(" ")).filter(|scopes| !scopes.is_empty()))
    }),
    Column::new("Expires", |created| or_dash(created.api_key.expires_at.map(time).as_deref())),
];

fn state(key: &ApiKey) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", time(at)),
        (None, Some(at)) => format!("until {}", time(at)),
        (None, None) => "valid".to_owned(),
    }
}

pub(crate) async fn run(command: ApiKeysCommand, session: &Session) -> CommandResult {
    match command {
        ApiKeysCommand::Create(args) => create(*args, session).await?,
        ApiKeysCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let keys = session.api()?.list(&["api-keys"], limit, query).await?;
            session.output.page(&keys, LIST, "there are no API keys")?;
            print_more(&keys, limit);
        }
        ApiKeysCommand::Get { key } => {
            let key: ApiKey = session.api()?.get(&["api-keys", &key], &()).await?;
            session.output.whole(&key, LIST)?;
        }
        ApiKeysCommand::Set { key, change } => {
            let patch = ApiKeyPatch {
                name: change.name,
                scopes: (!change.scopes.is_empty()).then(|| words_of(&change.scopes)),
                expires_at: change.expires_at,
            };
            let key: ApiKey = session.api()?.patch(&["api-keys", &key], &patch).await?;
            session.output.record(&key, LIST)?;
        }
        ApiKeysCommand::Revoke { key } => {
            session.api()?.delete(&["api-keys", &key], &()).await?;
            print_notice("revoked");
        }
    }
    Ok(exit::OK)
}

fn words_of(scopes: &[Permission]) -> Vec<String> {
    scopes.iter().map(|scope| scope.to_string()).collect()
}

async fn create(args: CreateArgs, session: &Session) -> Result<(), ExitError> {
    let file = args.to_file.as_deref().map(KeyFile::create).transpose()?;
    let created = match args.direct.connect(session).await? {
        Some(Direct { mut conn, source }) => {
            check_display_name(&args.name).map_err(|what| usage(anyhow!("the name {what}")))?;
            let (environment, keys) = as_the_api(&args, &source);
            check_environment(&environment).map_err(|what| usage(anyhow!("the environment {what}")))?;
            if args.user.is_none() && !args.of_tenant {
                return Err(usage(anyhow!("set the owner of the key with --user, or use --of-tenant")));
            }
            let ring = keys.as_deref().map(ring).transpose()?;
            let order = KeyOrder {
                tenant: direct::tenant(&mut conn, &args.tenant).await?,
                email: args.user.as_deref().filter(|_| !args.of_tenant),
                name: &args.name,
                scopes: (!args.scopes.is_empty()).then(|| args.scopes.iter().copied().collect()),
                expires_at: args.expires_at,
            };
            let key = direct::new_key(&environment);
            let created = direct::create_key(&mut conn, order, &key, ring.as_ref()).await?;
            NewApiKey {
                key: key.text().expose_secret().to_owned(),
                api_key: ApiKey {
                    id: created.id.0,
                    name: created.name,
                    prefix: created.key_prefix,
                    user: order.email.map(str::to_owned),
                    scopes: created.scopes,
                    hash_key: created.hash_key_id,
                    expires_at: created.expires_at,
                    revoked_at: created.revoked_at,
                    revoked_by: created.revoked_src,
                    last_used_at: created.last_used_at,
                    created_at: created.created_at,
                    created_by: created.created_src,
                },
            }
        }
        None => {
            let spec = ApiKeySpec {
                name: args.name,
                scopes: words_of(&args.scopes),
                expires_at: args.expires_at,
                of_tenant: args.of_tenant,
            };
            session.api()?.post(&["api-keys"], None, &spec).await?
        }
    };
    match file {
        Some(file) => {
            let name = file.path.display().to_string();
            file.fill(&created.key)?;
            print_notice(&format!("the key is only in {name}"));
            session.output.record(&created.api_key, LIST)
        }
        None => {
            print_notice("the key is shown only this time");
            session.output.record(&created, CREATED)
        }
    }
}

/// The environment and key file of the API, which rejects keys created with other values. Default:
/// the settings that `schedctl dev` gives the API of that database.
fn as_the_api(args: &CreateArgs, source: &Source) -> (String, Option<PathBuf>) {
    let dev = source.dev();
    let environment = args.environment.as_deref().map(str::trim).filter(|word| !word.is_empty());
    let environment = environment.unwrap_or(if dev.is_some() { DEV_ENVIRONMENT } else { ENVIRONMENT });
    let named = args.secrets_key_file.clone().filter(|path| !path.as_os_str().is_empty());
    let keys = named.or_else(|| dev.map(local_install::secret_keys_beside).filter(|path| path.exists()));
    (environment.to_owned(), keys)
}

fn ring(path: &Path) -> Result<SecretKeys, ExitError> {
    let text = private_file::read(path).map_err(usage)?;
    SecretKeys::parse(text.expose_secret()).map_err(usage)
}

/// The file is removed unless it is filled.
struct KeyFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeyFile {
    fn create(path: &Path) -> Result<Self, ExitError> {
        let created = File::options().create_new(true).write(true).mode(0o600).open(path);
        let file = created.map_err(|error| {
            usage(anyhow::Error::new(error).context(format!("could not create {}", path.display())))
        })?;
        Ok(Self { path: path.to_owned(), file: Some(file) })
    }

    fn fill(mut self, key: &str) -> Result<(), ExitError> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let written = writeln!(file, "{key}").and_then(|()| file.sync_all());
        written.map_err(|error| {
            failure(anyhow::Error::new(error).context(format!("could not write {}", self.path.display())))
        })
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // A left-over empty file does no harm.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
