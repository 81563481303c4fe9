//! `tenants`: listing and making them.

use clap::Subcommand;
use sched_model::domain::identity::{check_display_name, check_slug};
use sched_runtime::exit;
use sched_wire::{PageQuery, Tenant, TenantSpec};

use super::super::{Session, tell_of_more};
use super::{DirectArgs, direct};
use crate::cli::at_least_one;
use crate::failure::{CommandResult, usage};
use crate::output::{Column, time};

#[derive(Debug, Subcommand)]
pub(crate) enum TenantsCommand {
    /// Make a tenant, with an owner if one is named
    Create {
        /// Short stable name: lower-case letters, digits, hyphens
        slug: String,
        /// Name for people; the slug without it
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Address of the user who becomes its first owner
        #[arg(long, value_name = "EMAIL")]
        owner: Option<String>,
        #[command(flatten)]
        direct: DirectArgs,
    },
    /// List tenants
    List {
        /// Most tenants to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one())]
        limit: usize,
    },
}

const COLUMNS: &[Column<Tenant>] = &[
    Column::new("SLUG", |tenant| tenant.slug.clone()),
    Column::new("NAME", |tenant| tenant.name.clone()),
    Column::new("PAUSED", |tenant| if tenant.is_paused { "yes" } else { "no" }.to_owned()),
    Column::new("CREATED", |tenant| time(tenant.created_at)),
    Column::wide("ID", |tenant| tenant.id.to_string()),
];

pub(crate) async fn run(command: TenantsCommand, session: &Session) -> CommandResult {
    match command {
        TenantsCommand::Create { slug, name, owner, direct: args } => {
            let made = match args.connect(session).await? {
                Some(mut conn) => {
                    check_slug(&slug).map_err(|what| usage(anyhow::anyhow!("the slug {what}")))?;
                    let name = name.as_deref().unwrap_or(&slug);
                    check_display_name(name).map_err(|what| usage(anyhow::anyhow!("the name {what}")))?;
                    let made = direct::create_tenant(&mut conn, &slug, name, owner.as_deref()).await?;
                    Tenant {
                        id: made.id.0,
                        slug: made.slug,
                        name: made.name,
                        is_paused: made.is_paused,
                        created_at: made.created_at,
                    }
                }
                None => session.api()?.post(&["tenants"], None, &TenantSpec { slug, name, owner }).await?,
            };
            session.output.record(&made, COLUMNS)?;
        }
        TenantsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let (tenants, more) = session.api()?.list(&["tenants"], limit, query).await?;
            session.output.list(&tenants, COLUMNS, "there are no tenants")?;
            tell_of_more(more, limit);
        }
    }
    Ok(exit::OK)
}
