//! `tenants` and their quotas.

use clap::Subcommand;
use sched_model::domain::identity::{check_display_name, check_slug};
use sched_runtime::exit;
use sched_wire::{
    PageQuery, QuotaUse, Quotas, QuotasPatch, ReasonRequest, Tenant, TenantPatch, TenantSpec, Usage,
};

use super::super::{Session, print_more};
use super::{Direct, DirectArgs, direct};
use crate::failure::{CommandResult, usage};
use crate::output::{Column, or_dash, print_notice, time, yes_or_no};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum TenantsCommand {
    /// Create a tenant, optionally with an owner
    Create {
        /// Slug: lower-case letters, digits, hyphens
        slug: String,
        /// Display name; default: the slug
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// E-mail address of the user that becomes its first owner
        #[arg(long, value_name = "EMAIL")]
        owner: Option<String>,
        #[command(flatten)]
        direct: DirectArgs,
    },
    /// Show one tenant
    #[command(visible_alias = "show")]
    Get {
        /// Slug of the tenant
        slug: String,
    },
    /// Change the name or the quotas of a tenant; other values stay
    Set {
        /// Slug of the tenant
        slug: String,
        /// Display name
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Quota and limit, or `none`: `jobs`, `runs_per_minute`, `concurrent_runs`, `log_bytes`
        /// (per day); may be repeated
        #[arg(long = "quota", value_name = "QUOTA=LIMIT", value_parser = quota)]
        quotas: Vec<Quota>,
    },
    /// Pause a tenant: its runs are neither dispatched nor claimed, its fires are skipped
    Pause {
        /// Slug of the tenant
        slug: String,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Resume a paused tenant
    Resume {
        /// Slug of the tenant
        slug: String,
    },
    /// Delete a tenant without jobs, with its members, keys and definitions
    Delete {
        /// Slug of the tenant
        slug: String,
    },
    /// Show how much of its quotas a tenant uses
    Usage {
        /// Slug of the tenant; default: the tenant of the caller
        slug: Option<String>,
    },
    /// List tenants
    List {
        /// Maximum number of tenants to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
}

const USAGE: &[Column<Usage>] = &[
    Column::new("TENANT", |usage| usage.tenant.clone()),
    Column::new("JOBS", |usage| of(usage.jobs)),
    Column::new("RUNS/MIN", |usage| of(usage.runs_per_minute)),
    Column::new("RUNNING", |usage| of(usage.concurrent_runs)),
    Column::new("LOG BYTES TODAY", |usage| of(usage.log_bytes)),
    Column::new("NOT KEPT", |usage| or_dash(usage.log_bytes_dropped)),
];

fn of(quota: QuotaUse) -> String {
    format!("{}/{}", or_dash(quota.used), or_dash(quota.limit))
}

/// `None` removes the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota {
    name: QuotaName,
    limit: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuotaName {
    Jobs,
    RunsPerMinute,
    ConcurrentRuns,
    LogBytes,
}

fn quota(text: &str) -> Result<Quota, String> {
    let (name, limit) = text.split_once('=').ok_or("has the form QUOTA=LIMIT, as in jobs=100")?;
    let name = match name {
        "jobs" => QuotaName::Jobs,
        "runs_per_minute" => QuotaName::RunsPerMinute,
        "concurrent_runs" => QuotaName::ConcurrentRuns,
        "log_bytes" => QuotaName::LogBytes,
        _ => {
            return Err("quotas are jobs, runs_per_minute, concurrent_runs and log_bytes".to_owned());
        }
    };
    let limit = match limit {
        "none" => None,
        number => Some(number.parse().map_err(|_no_number| "the limit must be a whole number or `none`")?),
    };
    Ok(Quota { name, limit })
}

fn patch(quotas: &[Quota]) -> QuotasPatch {
    let mut patch = QuotasPatch::default();
    for quota in quotas {
        let field = match quota.name {
            QuotaName::Jobs => &mut patch.jobs,
            QuotaName::RunsPerMinute => &mut patch.runs_per_minute,
            QuotaName::ConcurrentRuns => &mut patch.concurrent_runs,
            QuotaName::LogBytes => &mut patch.log_bytes,
        };
        *field = Some(quota.limit);
    }
    patch
}

const COLUMNS: &[Column<Tenant>] = &[
    Column::new("SLUG", |tenant| tenant.slug.clone()),
    Column::new("NAME", |tenant| tenant.name.clone()),
    Column::new("PAUSED", |tenant| yes_or_no(tenant.is_paused)),
    Column::new("CREATED", |tenant| time(tenant.created_at)),
    Column::wide("REASON", |tenant| or_dash(tenant.pause_reason.as_deref())),
    Column::wide("QUOTAS", |tenant| or_dash(limits(&tenant.quotas))),
    Column::wide("ID", |tenant| tenant.id.to_string()),
];

/// In the form of `set --quota`.
fn limits(quotas: &Quotas) -> Option<String> {
    let Quotas { jobs, runs_per_minute, concurrent_runs, log_bytes } = *quotas;
    let all = [
        ("jobs", jobs),
        ("runs_per_minute", runs_per_minute),
        ("concurrent_runs", concurrent_runs),
        ("log_bytes", log_bytes),
    ];
    let set = all.into_iter().filter_map(|(name, limit)| Some(format!("{name}={}", limit?)));
    Some(set.collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
}

pub(crate) async fn run(command: TenantsCommand, session: &Session) -> CommandResult {
    match command {
        TenantsCommand::Create { slug, name, owner, direct: args } => {
            let made = match args.connect(session).await? {
                Some(Direct { mut conn, .. }) => {
                    check_slug(&slug).map_err(|what| usage(anyhow::anyhow!("the slug {what}")))?;
                    let name = name.as_deref().unwrap_or(&slug);
                    check_display_name(name).map_err(|what| usage(anyhow::anyhow!("the name {what}")))?;
                    let made = direct::create_tenant(&mut conn, &slug, name, owner.as_deref()).await?;
                    Tenant {
                        id: made.id.0,
                        slug: made.slug,
                        name: made.name,
                        is_paused: made.is_paused,
                        pause_reason: made.pause_reason,
                        quotas: Quotas::default(),
                        created_at: made.created_at,
                        updated_at: made.updated_at,
                    }
                }
                None => session.api()?.post(&["tenants"], None, &TenantSpec { slug, name, owner }).await?,
            };
            session.output.whole(&made, COLUMNS)?;
        }
        TenantsCommand::Get { slug } => {
            let tenant: Tenant = session.api()?.get(&["tenants", &slug], &()).await?;
            session.output.whole(&tenant, COLUMNS)?;
        }
        TenantsCommand::Set { slug, name, quotas } => {
            let patch = TenantPatch { name, quotas: patch(&quotas) };
            let tenant: Tenant = session.api()?.patch(&["tenants", &slug], &patch).await?;
            session.output.whole(&tenant, COLUMNS)?;
        }
        TenantsCommand::Pause { slug, reason } => {
            let request = ReasonRequest { reason };
            let tenant: Tenant = session.api()?.post(&["tenants", &slug, "pause"], None, &request).await?;
            session.output.whole(&tenant, COLUMNS)?;
        }
        TenantsCommand::Resume { slug } => {
            let request = ReasonRequest::default();
            let tenant: Tenant = session.api()?.post(&["tenants", &slug, "resume"], None, &request).await?;
            session.output.whole(&tenant, COLUMNS)?;
        }
        TenantsCommand::Delete { slug } => {
            session.api()?.delete(&["tenants", &slug], &()).await?;
            print_notice(&format!("deleted tenant {slug}"));
        }
        TenantsCommand::Usage { slug } => {
            let api = session.api()?;
            let usage: Usage = match &slug {
                Some(slug) => api.get(&["tenants", slug, "usage"], &()).await?,
                None => api.get(&["usage"], &()).await?,
            };
            session.output.record(&usage, USAGE)?;
        }
        TenantsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let tenants = session.api()?.list(&["tenants"], limit, query).await?;
            session.output.page(&tenants, COLUMNS, "there are no tenants")?;
            print_more(&tenants, limit);
        }
    }
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_set_and_taken_away_by_name() {
        let given = ["jobs=5", "log_bytes=none"].map(|text| quota(text).unwrap());
        let patch = patch(&given);
        assert_eq!((patch.jobs, patch.log_bytes, patch.concurrent_runs), (Some(Some(5)), Some(None), None));
        assert_eq!(limits(&Quotas::default()), None);
        let quotas = Quotas { jobs: Some(5), concurrent_runs: Some(1), ..Quotas::default() };
        let shown = limits(&quotas).unwrap();
        assert_eq!(shown, "jobs=5 concurrent_runs=1");
        assert!(shown.split(' ').all(|text| super::quota(text).is_ok()), "{shown}");
        for bad in ["jobs", "job=1", "jobs=x", "jobs="] {
            assert!(quota(bad).is_err(), "{bad}");
        }
    }
}
