//! Checks of a manifest against the stored resources.

use std::collections::{BTreeSet, HashMap};

use sched_model::definitions::calendars;
use sched_model::definitions::functions::{self, FunctionSettings};
use sched_model::domain::args_schema;
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::JobSettings;
use sched_model::domain::secret::named_secrets;
use sched_model::{
    Conn, DbResult,
    definitions::{dependencies, secrets},
    identity::tenants,
};
use sched_runtime::exit;
use serde_json::Value;

use super::functions::mistakes_of_hidden;
pub(super) use super::references::missing;
use super::references::missing_references;
use crate::convert::manifest::CheckedManifest;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError};
use crate::routes::operations::notifications;

pub(super) async fn validate(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> Result<(), ApiError> {
    let mut mistakes = checked.mistakes.clone();
    match look_up(conn, tenant, checked).await {
        Ok(missing) => mistakes.extend(missing),
        // Caller errors are more useful than a failed lookup of further errors.
        Err(error) if mistakes.is_empty() => return Err(error.into()),
        Err(error) => {
            tracing::debug!(error = exit::describe(&error), "names of the manifest could not be checked");
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(ApiError::Refused(mistakes)) }
}

async fn look_up(conn: &mut Conn, tenant: TenantId, checked: &CheckedManifest) -> DbResult<Vec<FieldError>> {
    let own: BTreeSet<&str> = checked.function_names.iter().map(String::as_str).collect();
    // Missing functions are `None`; each stored one has the schema of its arguments, if any.
    let mut functions: HashMap<&str, Option<Option<Value>>> = HashMap::new();
    let mut projects: HashMap<&str, bool> = HashMap::new();
    let mut mistakes = missing_calendars(conn, tenant, checked).await?;
    for (at, job) in &checked.jobs {
        let name = job.function.as_str();
        if !own.contains(name) && !functions.contains_key(name) {
            let found = functions::by_name(conn, tenant, name).await?;
            functions.insert(name, found.map(|function| function.settings.args_schema));
        }
        match functions.get(name) {
            Some(None) => mistakes.push(missing(format!("{at}/function"), "task function", name)),
            Some(Some(schema)) => mistakes.extend(unfit_args(schema.as_ref(), at, job)),
            None => {
                let written = checked.functions.iter().find(|(_, settings)| settings.name == name);
                let schema = written.and_then(|(_, settings)| settings.args_schema.as_ref());
                mistakes.extend(unfit_args(schema, at, job));
            }
        }
        let Some(name) = job.project.as_deref() else { continue };
        if checked.project_names.iter().any(|own| own == name) {
            continue;
        }
        if !projects.contains_key(name) {
            projects.insert(name, tenants::project_by_name(conn, tenant, name).await?.is_some());
        }
        if projects.get(name) == Some(&false) {
            mistakes.push(missing(format!("{at}/project"), "project", name));
        }
    }
    mistakes.extend(missing_jobs(conn, tenant, checked).await?);
    mistakes.extend(missing_secrets(conn, tenant, checked).await?);
    mistakes.extend(mistakes_of_hidden(conn, tenant, checked).await?);
    mistakes.extend(notifications::applied::missing(conn, tenant, checked).await?);
    mistakes.extend(missing_references(conn, tenant, checked).await?);
    Ok(mistakes)
}

fn unfit_args(schema: Option<&Value>, at: &str, job: &JobSettings) -> Vec<FieldError> {
    let misfits = args_schema::misfits(schema, &job.task_args).into_iter();
    misfits.map(|misfit| field_error::unfit(misfit, at)).collect()
}

async fn missing_jobs(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> DbResult<Vec<FieldError>> {
    let own: BTreeSet<&str> = checked.job_names.iter().map(String::as_str).collect();
    let named = checked.jobs.iter().flat_map(|(_, job)| &job.after).map(|after| after.job.as_str());
    let others: BTreeSet<&str> = named.filter(|name| !own.contains(name)).collect();
    let unknown = dependencies::unknown_names(conn, tenant, &others).await?;
    let mut mistakes = Vec::new();
    for (at, job) in &checked.jobs {
        for (index, after) in job.after.iter().enumerate().filter(|(_, after)| unknown.contains(&after.job)) {
            mistakes.push(missing(format!("{at}/after/{index}/job"), "job", &after.job));
        }
    }
    Ok(mistakes)
}

async fn missing_calendars(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> DbResult<Vec<FieldError>> {
    let mut known: BTreeSet<&str> = checked.calendar_names.iter().map(String::as_str).collect();
    let named = || checked.jobs.iter().flat_map(|(_, job)| &job.calendars);
    let unknown: BTreeSet<&String> = named().filter(|name| !known.contains(name.as_str())).collect();
    let unknown: Vec<String> = unknown.into_iter().cloned().collect();
    let found = calendars::by_names(conn, tenant, &unknown).await?;
    known.extend(found.iter().map(|calendar| calendar.name.as_str()));
    let mut mistakes = Vec::new();
    for (at, job) in &checked.jobs {
        for (index, name) in job.calendars.iter().enumerate() {
            if !known.contains(name.as_str()) {
                mistakes.push(missing(format!("{at}/calendars/{index}"), "calendar", name));
            }
        }
    }
    Ok(mistakes)
}

pub(crate) async fn missing_secrets(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> DbResult<Vec<FieldError>> {
    let of_function = |(at, function): &(String, FunctionSettings)| {
        let named = named_secrets(&function.handler_config).into_iter();
        named.map(|named| (format!("{at}/handler_config{}", named.pointer), named.name)).collect::<Vec<_>>()
    };
    let named: Vec<(String, String)> = checked.functions.iter().flat_map(of_function).collect();
    let names = named.iter().map(|(_, name)| name.as_str()).collect();
    let unknown = secrets::unknown_names(conn, tenant, names).await?;
    let is_expected = |name: &String| checked.secrets.contains(name);
    let missing = named.iter().filter(|(_, name)| unknown.contains(name.as_str()) && !is_expected(name));
    let mistake = |(pointer, name): &(String, String)| {
        let message = format!(
            "there is no secret named {name:?}; create it first: `schedctl secrets set {name}`, or list it in `secrets`"
        );
        FieldError::invalid(pointer.as_str(), message)
    };
    Ok(missing.map(mistake).collect())
}
