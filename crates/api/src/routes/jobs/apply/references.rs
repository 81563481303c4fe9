//! Looks up the queues that a manifest names, and every name in its jobs with mistakes.
//!
//! Names in sound jobs are looked up with their settings, in `checks`.

use std::collections::{BTreeMap, BTreeSet};

use sched_model::definitions::{calendars, dependencies, functions, queues};
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::check_name;
use sched_model::identity::tenants;
use sched_model::{Conn, DbResult};

use crate::convert::manifest::CheckedManifest;
use crate::error::field_error::FieldError;

/// Names by their positions.
type Named<'a> = Vec<(String, &'a str)>;

pub(super) async fn missing_references(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> DbResult<Vec<FieldError>> {
    let unsound = || checked.unsound_jobs.iter();
    let mut mistakes = missing_queues(conn, tenant, checked).await?;
    if checked.unsound_jobs.is_empty() {
        return Ok(mistakes);
    }
    let functions =
        unsound().filter_map(|job| Some((format!("{}/function", job.at), job.function.as_deref()?)));
    let mut known = BTreeMap::new();
    for (at, name) in unknown(functions.collect(), &checked.function_names) {
        if !known.contains_key(name) {
            known.insert(name, functions::by_name(conn, tenant, name).await?.is_some());
        }
        mistakes.extend((known.get(name) == Some(&false)).then(|| missing(at, "task function", name)));
    }
    let projects = unsound().filter_map(|job| Some((format!("{}/project", job.at), job.project.as_deref()?)));
    for (at, name) in unknown(projects.collect(), &checked.project_names) {
        if tenants::project_by_name(conn, tenant, name).await?.is_none() {
            mistakes.push(missing(at, "project", name));
        }
    }
    let calendars = unsound().flat_map(|job| entries(&job.at, "calendars", "", &job.calendars));
    let calendars = unknown(calendars.collect(), &checked.calendar_names);
    let names: Vec<String> = distinct(&calendars).into_iter().map(str::to_owned).collect();
    let found = calendars::by_names(conn, tenant, &names).await?;
    let is_missing = |name: &str| found.iter().all(|calendar| calendar.name != name);
    let calendars = calendars.into_iter().filter(|(_, name)| is_missing(name));
    mistakes.extend(calendars.map(|(at, name)| missing(at, "calendar", name)));
    let jobs = unsound().flat_map(|job| entries(&job.at, "after", "/job", &job.after));
    let jobs = unknown(jobs.collect(), &checked.job_names);
    let absent = dependencies::unknown_names(conn, tenant, &distinct(&jobs)).await?;
    let jobs = jobs.into_iter().filter(|(_, name)| absent.contains(*name));
    mistakes.extend(jobs.map(|(at, name)| missing(at, "job", name)));
    Ok(mistakes)
}

/// Otherwise a constraint finds the first one and reports it alone.
async fn missing_queues(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> DbResult<Vec<FieldError>> {
    let of_functions = checked.functions.iter().map(|(at, settings)| (at, settings.queue.as_str()));
    let of_jobs = checked.jobs.iter().filter_map(|(at, job)| Some((at, job.queue.as_deref()?)));
    let of_unsound = checked.unsound_jobs.iter().filter_map(|job| Some((&job.at, job.queue.as_deref()?)));
    let named = of_functions.chain(of_jobs).chain(of_unsound);
    let named = named.map(|(at, name)| (format!("{at}/queue"), name)).collect();
    let mut known = BTreeMap::new();
    let mut mistakes = Vec::new();
    for (at, name) in unknown(named, &checked.queue_names) {
        if !known.contains_key(name) {
            known.insert(name, queues::by_name(conn, tenant, name).await?.is_some());
        }
        mistakes.extend((known.get(name) == Some(&false)).then(|| missing(at, "queue", name)));
    }
    Ok(mistakes)
}

pub(super) fn missing(pointer: String, kind: &str, name: &str) -> FieldError {
    FieldError::invalid(pointer, format!("there is no {kind} named {name:?}"))
}

fn entries<'a>(
    at: &'a str,
    list: &'static str,
    field: &'static str,
    names: &'a [String],
) -> impl Iterator<Item = (String, &'a str)> {
    names.iter().enumerate().map(move |(index, name)| (format!("{at}/{list}/{index}{field}"), name.as_str()))
}

/// Without names of the manifest, and without those that no resource can have: they have their own
/// mistake.
fn unknown<'a>(named: Named<'a>, own: &[String]) -> Named<'a> {
    let is_own = |name: &str| own.iter().any(|own| own == name);
    named.into_iter().filter(|(_, name)| check_name(name, 200).is_ok() && !is_own(name)).collect()
}

fn distinct<'a>(named: &Named<'a>) -> BTreeSet<&'a str> {
    named.iter().map(|(_, name)| *name).collect()
}
