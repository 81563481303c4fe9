//! `api-keys`: making, listing, changing, revoking.
//!
//! The text of a new key is printed once, or written to a file that only its owner may read; the file is made first, so that no key
//! works that could not be kept.

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

use super::super::{Session, tell_of_more};
use super::direct::{self, DEV_ENVIRONMENT, KeyOrder};
use super::{Direct, DirectArgs};
use crate::dev::folder;
use crate::endpoint::Source;
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Column, or_dash, tell, time};
use crate::values::{at_least_one, instant};

/// The environment of an API that is told no other.
const ENVIRONMENT: &str = "live";

#[derive(Debug, Subcommand)]
pub(crate) enum ApiKeysCommand {
    /// Make a key for the caller, or with --of-tenant for the tenant, and show it this once
    Create(Box<CreateArgs>),
    /// List keys, without what is secret of them
    List {
        /// Most keys to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one key, without what is secret of it
    #[command(visible_alias = "show")]
    Get {
        /// Its id, or its prefix such as `sched_live_abcdefghijklmnop`
        key: String,
    },
    /// Rename a key, or have it do less or end sooner; every API knows within five seconds
    Set {
        /// Its id, or its prefix such as `sched_live_abcdefghijklmnop`
        key: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Revoke a key for good; every API refuses it within five seconds
    Revoke {
        /// Its id, or its prefix such as `sched_live_abcdefghijklmnop`
        key: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// What it is for
    name: String,
    /// One thing it may do, such as jobs:trigger; may be repeated; all that its owner may without it
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<Permission>,
    /// When it ends, such as 2027-01-31T00:00:00Z; never without it
    #[arg(long, value_name = "TIME", value_parser = instant)]
    expires_at: Option<DateTime<Utc>>,
    /// A key of the tenant instead of a user, which outlives who makes it; needs --scope
    #[arg(long, requires = "scopes")]
    of_tenant: bool,
    /// File to write the key to, for its owner's eyes only, instead of printing it
    #[arg(long, value_name = "FILE")]
    to_file: Option<PathBuf>,
    /// The user whose key it is, with --direct
    #[arg(long, value_name = "EMAIL", requires = "direct")]
    user: Option<String>,
    /// The tenant it acts in, with --direct
    #[arg(long, value_name = "SLUG", default_value = DEFAULT_TENANT, requires = "direct")]
    tenant: String,
    /// What it names in its second part, with --direct: as the API is set; without it `dev` for a running `schedctl dev`, else `live`
    #[arg(long, value_name = "WORD", env = "API_KEY_ENVIRONMENT")]
    environment: Option<String>,
    /// Keys of the secrets, with --direct: as the API is set; without it those of the running `schedctl dev`, for its own database
    #[arg(long, value_name = "FILE", env = "SECRETS_KEY_FILE")]
    secrets_key_file: Option<PathBuf>,
    #[command(flatten)]
    direct: DirectArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ChangeArgs {
    /// What it is for
    #[arg(long)]
    name: Option<String>,
    /// One thing it may still do, of those it may do now; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<Permission>,
    /// When it ends, no later than it does now, such as 2027-01-31T00:00:00Z
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

const MADE: &[Column<NewApiKey>] = &[
    Column::new("Key", |made| made.key.clone()),
    Column::new("Prefix", |made| made.api_key.prefix.clone()),
    Column::new("Name", |made| made.api_key.name.clone()),
    Column::new("User", |made| or_dash(made.api_key.user.as_deref())),
    Column::new("Scopes", |made| {
        or_dash(Some(made.api_key.scopes.join(" ")).filter(|scopes| !scopes.is_empty()))
    }),
    Column::new("Expires", |made| or_dash(made.api_key.expires_at.map(time).as_deref())),
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
            tell_of_more(&keys, limit);
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
            tell("revoked");
        }
    }
    Ok(exit::OK)
}

fn words_of(scopes: &[Permission]) -> Vec<String> {
    scopes.iter().map(|scope| scope.to_string()).collect()
}

async fn create(args: CreateArgs, session: &Session) -> Result<(), ExitError> {
    let file = args.to_file.as_deref().map(KeyFile::make).transpose()?;
    let made = match args.direct.connect(session).await? {
        Some(Direct { mut conn, source }) => {
            check_display_name(&args.name).map_err(|what| usage(anyhow!("the name {what}")))?;
            let (environment, keys) = as_the_api(&args, &source);
            check_environment(&environment).map_err(|what| usage(anyhow!("the environment {what}")))?;
            if args.user.is_none() && !args.of_tenant {
                return Err(usage(anyhow!(
                    "name the user whose key it is to be with --user, or give --of-tenant"
                )));
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
            let made = direct::create_key(&mut conn, order, &key, ring.as_ref()).await?;
            NewApiKey {
                key: key.text().expose_secret().to_owned(),
                api_key: ApiKey {
                    id: made.id.0,
                    name: made.name,
                    prefix: made.key_prefix,
                    user: order.email.map(str::to_owned),
                    scopes: made.scopes,
                    hash_key: made.hash_key_id,
                    expires_at: made.expires_at,
                    revoked_at: made.revoked_at,
                    revoked_by: made.revoked_src,
                    last_used_at: made.last_used_at,
                    created_at: made.created_at,
                    created_by: made.created_src,
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
            file.fill(&made.key)?;
            tell(&format!("the key is in {name}, and nowhere else"));
            session.output.record(&made.api_key, LIST)
        }
        None => {
            tell("this is the one time the key is shown");
            session.output.record(&made, MADE)
        }
    }
}

/// The environment and the file with the keys of the secrets that the API has, which takes no key that was made with others: as somebody
/// says, else as the `schedctl dev` has set its API whose database it is.
fn as_the_api(args: &CreateArgs, source: &Source) -> (String, Option<PathBuf>) {
    let dev = source.dev();
    let environment = args.environment.as_deref().map(str::trim).filter(|word| !word.is_empty());
    let environment = environment.unwrap_or(if dev.is_some() { DEV_ENVIRONMENT } else { ENVIRONMENT });
    let named = args.secrets_key_file.clone().filter(|path| !path.as_os_str().is_empty());
    let keys = named.or_else(|| dev.map(folder::secret_keys_beside).filter(|path| path.exists()));
    (environment.to_owned(), keys)
}

fn ring(path: &Path) -> Result<SecretKeys, ExitError> {
    let text = private_file::read(path).map_err(usage)?;
    SecretKeys::parse(text.expose_secret()).map_err(usage)
}

/// A file for a key, which goes again unless it is filled.
struct KeyFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeyFile {
    fn make(path: &Path) -> Result<Self, ExitError> {
        let made = File::options().create_new(true).write(true).mode(0o600).open(path);
        let file = made.map_err(|error| {
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
            // Empty; one that stays behind harms nobody.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
