//! `export`: the definitions of a tenant, as a manifest for `apply`. Read only.
//!
//! Built-in items, values of secrets and pauses are omitted. Values that may be secrets are hidden;
//! `apply` keeps the stored value for a placeholder. So an applied export changes nothing here, and
//! on an empty installation creates everything but the values. Jobs and rules are read before their
//! references, so that concurrently created references are included.

use std::collections::BTreeSet;

use actix_web::web;
use sched_model::definitions::functions::{self, Filter, Function};
use sched_model::definitions::projects::{self, ProjectSettings};
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::TenantId;
use sched_model::domain::secret::named_secrets;
use sched_model::events::notifications::channels::{self, ChannelRecord};
use sched_model::events::notifications::rules;
use sched_model::identity::tenants::DEFAULT_QUEUE;
use sched_model::jobs::{self, Job, List};
use sched_model::{
    Conn, DbResult, PageRequest,
    definitions::{calendars, queues, templates},
};
use sched_wire::{ExportQuery, FunctionSpec, Manifest, ProjectDefinition, QueueDefinition, SecretReference};

use crate::convert::hidden::Sight;
use crate::convert::manifest::MOST_ITEMS;
use crate::convert::{calendar, notification, project, queue, response, template};
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::http::extract::limits::MAX_BODY_BYTES;
use crate::identity::Identity;
use crate::routes::named_resource::is_system_queue;
use crate::routes::{Answer, State};

/// Rows to read of each kind: one more than a manifest may contain, to detect one that is too long.
const ROWS: i64 = MOST_ITEMS as i64 + 1;

/// `GET /export`
pub(crate) async fn export(
    state: State,
    identity: Identity,
    Query(query): Query<ExportQuery>,
) -> Answer<Manifest> {
    let tenant = identity.tenant();
    let is_part = query.project.is_some() || query.name_prefix.is_some();
    if is_part && query.without_jobs {
        let message = "leaves out what project and name_prefix choose from; leave it out, or those";
        return Err(ApiError::parameter("without_jobs", message));
    }
    let manifest = state
        .read(&identity, "export", async |conn: &mut Conn| {
            if is_part {
                return part(conn, &identity, &query).await;
            }
            let jobs = if query.without_jobs { Vec::new() } else { jobs_of(conn, tenant, &query).await? };
            let manifest = all_but_jobs(conn, &identity).await?;
            Ok(Manifest {
                jobs: jobs.into_iter().map(|job| response::spec(job.settings)).collect(),
                ..manifest
            })
        })
        .await?;
    // A manifest that `apply` would reject is useless.
    let Manifest {
        projects,
        secrets,
        queues,
        calendars,
        task_functions,
        templates,
        jobs,
        notification_channels,
        notification_rules,
    } = &manifest;
    let items = projects.len()
        + secrets.len()
        + queues.len()
        + calendars.len()
        + task_functions.len()
        + templates.len()
        + jobs.len();
    let items = items + notification_channels.len() + notification_rules.len();
    let bytes = serde_json::to_vec(&manifest).map_err(ApiError::Unwritten)?.len();
    if items > MOST_ITEMS || bytes > MAX_BODY_BYTES {
        let message = format!(
            "is needed: this is more than the {MOST_ITEMS} items, or {MAX_BODY_BYTES} bytes, that can be applied at once; request the jobs of one project, or of a \
             name_prefix, with what they name, and for the rest without_jobs"
        );
        return Err(ApiError::parameter("project", message));
    }
    Ok(web::Json(manifest))
}

async fn jobs_of(conn: &mut Conn, tenant: TenantId, query: &ExportQuery) -> DbResult<Vec<Job>> {
    let ExportQuery { project, name_prefix, .. } = query.clone();
    jobs::list(conn, tenant, &List { project, name_prefix, ..List::default() }, ROWS).await
}

async fn part(conn: &mut Conn, identity: &Identity, query: &ExportQuery) -> Result<Manifest, ApiError> {
    let tenant = identity.tenant();
    let jobs = jobs_of(conn, tenant, query).await?;
    let named: BTreeSet<&str> = jobs.iter().map(|job| job.settings.function.as_str()).collect();
    let functions = functions::by_names(conn, tenant, &Vec::from_iter(named)).await?;
    let named = jobs.iter().filter_map(|job| job.settings.queue.clone());
    let named: BTreeSet<String> =
        named.chain(functions.iter().map(|function| function.settings.queue.clone())).collect();
    let queues = queues_of(conn, identity, Some(&Vec::from_iter(named))).await?;
    let named: BTreeSet<&String> = jobs.iter().flat_map(|job| &job.settings.calendars).collect();
    let named: Vec<String> = named.into_iter().cloned().collect();
    let calendars = calendars::by_names(conn, tenant, &named).await?.into_iter();
    let projects: BTreeSet<&str> = jobs.iter().filter_map(|job| job.settings.project.as_deref()).collect();
    Ok(Manifest {
        queues,
        projects: projects_of(conn, tenant, Some(&projects)).await?,
        calendars: calendars.map(calendar::spec).collect::<Result<_, _>>()?,
        secrets: references(&functions, &[]),
        task_functions: own(functions.into_iter(), identity)?,
        jobs: jobs.into_iter().map(|job| response::spec(job.settings)).collect(),
        ..Manifest::default()
    })
}

/// Rules are read before the channels that they name.
async fn all_but_jobs(conn: &mut Conn, identity: &Identity) -> Result<Manifest, ApiError> {
    let tenant = identity.tenant();
    let rules = rules::list(conn, tenant, None, ROWS).await?.into_iter();
    let channels = channels::list(conn, tenant, None, ROWS).await?;
    let templates = templates::list(conn, tenant, None, ROWS).await?.into_iter();
    let functions =
        functions::list(conn, tenant, &Filter::default(), PageRequest { after: None, limit: ROWS }).await?;
    let calendars = calendars::list(conn, tenant, None, ROWS).await?.into_iter();
    Ok(Manifest {
        projects: projects_of(conn, tenant, None).await?,
        queues: queues_of(conn, identity, None).await?,
        calendars: calendars.map(calendar::spec).collect::<Result<_, _>>()?,
        secrets: references(&functions, &channels),
        task_functions: own(functions.into_iter(), identity)?,
        templates: templates.map(template::spec).collect::<Result<_, _>>()?,
        jobs: Vec::new(),
        notification_channels: channels.into_iter().map(notification::channel_spec).collect(),
        notification_rules: rules.map(notification::rule_spec).collect(),
    })
}

/// Queues for a manifest, all or by name, if the caller may see queues. Omits the queue of built-in
/// jobs, and an unchanged default queue.
async fn queues_of(
    conn: &mut Conn,
    identity: &Identity,
    names: Option<&[String]>,
) -> DbResult<Vec<QueueDefinition>> {
    if !identity.caller().permissions.has(Permission::QueuesRead) {
        return Ok(Vec::new());
    }
    let untouched = QueueDefinition { name: DEFAULT_QUEUE.to_owned(), ..QueueDefinition::default() };
    let says_more =
        |found: &QueueDefinition| QueueDefinition { description: None, ..found.clone() } != untouched;
    let all = queues::settings(conn, identity.tenant(), names, ROWS).await?.into_iter();
    let own = all.filter(|found| !is_system_queue(identity.tenant(), &found.name)).map(queue::definition);
    Ok(own.filter(says_more).collect())
}

/// Projects for a manifest, all or by name. Omits an unchanged default project.
async fn projects_of(
    conn: &mut Conn,
    tenant: TenantId,
    names: Option<&BTreeSet<&str>>,
) -> DbResult<Vec<ProjectDefinition>> {
    let untouched = projects::untouched_default();
    let is_wanted = |settings: &ProjectSettings| {
        *settings != untouched && names.is_none_or(|names| names.contains(settings.name.as_str()))
    };
    let all = projects::list(conn, tenant, None, ROWS).await?.into_iter().map(|found| found.settings);
    Ok(all.filter(is_wanted).map(project::definition).collect())
}

/// The secrets that these definitions name, which an empty installation lacks.
fn references(functions: &[Function], channels: &[ChannelRecord]) -> Vec<SecretReference> {
    let own = functions.iter().filter(|found| !found.is_system);
    let of_functions = own.flat_map(|found| named_secrets(&found.settings.handler_config));
    let of_channels = channels.iter().filter_map(|channel| channel.secret.clone());
    let names: BTreeSet<String> = of_functions.map(|named| named.name).chain(of_channels).collect();
    names.into_iter().map(|name| SecretReference { name }).collect()
}

fn own(
    functions: impl Iterator<Item = Function>,
    identity: &Identity,
) -> Result<Vec<FunctionSpec>, ApiError> {
    let sight = Sight::of(identity.caller().permissions);
    let own = functions.filter(|found| !found.is_system);
    own.map(|found| response::function_spec(found.settings, sight)).collect()
}
