//! Tenants, users, memberships, API keys, and who the caller is.
//!
//! Through the API, like everything that has an audit trail; with `--direct` in the database itself, which is how an installation
//! gets its first user and key, and a way back in when nobody has a key any more. Either way a password comes from a file, from
//! standard input or from the terminal, never from the command line, and a key is shown once.

mod api_keys;
mod direct;
mod password;
mod tenants;
mod users;

use anyhow::anyhow;
use clap::Args;
use sched_model::identity::users::MemberError;
use sched_model::{Conn, connection::migrations};
use sched_runtime::exit::{self, ExitError};
use sched_wire::Me;

use super::Session;
use crate::cli::DatabaseArgs;
use crate::commands::operations::migrate;
use crate::endpoint::Source;
use crate::failure::{CommandResult, failure, schema};
use crate::output::{Column, or_dash};

pub(crate) use api_keys::ApiKeysCommand;
pub(crate) use direct::{DEV_ENVIRONMENT, ensure_dev_key};
pub(crate) use tenants::TenantsCommand;
pub(crate) use users::{MembershipsCommand, UsersCommand};

pub(super) use api_keys::run as api_keys;
pub(super) use tenants::run as tenants;
pub(super) use users::{run as users, run_memberships as memberships};

/// Whether to ask the API or the database.
#[derive(Debug, Args)]
pub(crate) struct DirectArgs {
    /// Write to the database itself, which is told as for `migrate`: for the first user and key, and when nobody has one any more
    #[arg(long)]
    direct: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A database to write to, whose schema fits.
struct Direct {
    conn: Conn,
    /// Who named it: what else is as the API is set comes from there too.
    source: Source,
}

impl DirectArgs {
    /// The database, if it is to be asked.
    async fn connect(&self, session: &Session) -> Result<Option<Direct>, ExitError> {
        if !self.direct {
            return Ok(None);
        }
        let (_database, mut conn, source) = migrate::connect(&self.database, session).await?;
        migrations::check(&mut conn).await.map_err(schema)?;
        Ok(Some(Direct { conn, source }))
    }
}

const ME: &[Column<Me>] = &[
    Column::new("Actor", |me| me.actor.clone()),
    Column::new("Tenant", |me| me.tenant.slug.clone()),
    Column::new("User", |me| or_dash(me.user.as_deref())),
    Column::new("Role", |me| or_dash(me.role.as_deref())),
    Column::new("API key", |me| or_dash(me.api_key.as_deref())),
    Column::new("Permissions", |me| me.permissions.join(", ")),
];

/// Shows who the API takes the caller for.
pub(super) async fn whoami(session: &Session) -> CommandResult {
    let me: Me = session.api()?.get(&["me"], &()).await?;
    session.output.record(&me, ME)?;
    Ok(exit::OK)
}

/// A refusal of the database, for people.
fn refused(what: &'static str) -> impl FnOnce(MemberError) -> ExitError {
    move |error| {
        let constraint = match &error {
            MemberError::Database(error) => error.constraint(),
            MemberError::NoSuchUser(_) | MemberError::LastOwner => None,
        };
        let known = match constraint {
            Some("users_email_key") => Some("there is a user with this e-mail already"),
            Some("tenants_slug_key") => Some("there is a tenant with this slug already"),
            Some("api_keys_membership_fkey") => Some("the user is no member of the tenant"),
            Some("api_keys_expires_after_created_check") => Some("it would have ended already"),
            _ => None,
        };
        match known {
            Some(why) => failure(anyhow!("{what}: {why}")),
            None => failure(anyhow::Error::new(error).context(what)),
        }
    }
}
