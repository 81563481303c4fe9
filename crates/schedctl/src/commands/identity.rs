//! Tenants, users, memberships, API keys, and the identity of the caller.
//!
//! With `--direct` the commands write to the database: for the first user and key, or without a
//! valid key. A password never comes from the command line; a key is shown once.

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
use crate::commands::operations::migrate;
use crate::endpoint::Source;
use crate::failure::{CommandResult, failure, schema};
use crate::globals::DatabaseArgs;
use crate::output::{Column, or_dash};

pub(crate) use api_keys::ApiKeysCommand;
pub(crate) use direct::{DEV_ENVIRONMENT, ensure_dev_key};
pub(crate) use tenants::TenantsCommand;
pub(crate) use users::{MembershipsCommand, UsersCommand};

pub(crate) use api_keys::run as api_keys;
pub(crate) use tenants::run as tenants;
pub(crate) use users::{run as users, run_memberships as memberships};

/// Selects the API or the database.
#[derive(Debug, Args)]
pub(crate) struct DirectArgs {
    /// Write to the database, selected as for `migrate`, instead of the API: for the first user and
    /// key, or when no valid key is left
    #[arg(long)]
    direct: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

struct Direct {
    conn: Conn,
    /// Origin of the URL; selects the other settings of the API.
    source: Source,
}

impl DirectArgs {
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

pub(crate) async fn whoami(session: &Session) -> CommandResult {
    let me: Me = session.api()?.get(&["me"], &()).await?;
    session.output.record(&me, ME)?;
    Ok(exit::OK)
}

fn refused(what: &'static str) -> impl FnOnce(MemberError) -> ExitError {
    move |error| {
        let constraint = match &error {
            MemberError::Database(error) => error.constraint(),
            MemberError::NoSuchUser(_) | MemberError::LastOwner => None,
        };
        let known = match constraint {
            Some("users_email_key") => Some("a user with this e-mail already exists"),
            Some("tenants_slug_key") => Some("a tenant with this slug already exists"),
            Some("api_keys_membership_fkey") => Some("the user is not a member of the tenant"),
            Some("api_keys_expires_after_created_check") => Some("the expiry is in the past"),
            _ => None,
        };
        match known {
            Some(why) => failure(anyhow!("{what}: {why}")),
            None => failure(anyhow::Error::new(error).context(what)),
        }
    }
}
