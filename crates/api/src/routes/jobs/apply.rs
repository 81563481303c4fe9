//! `apply`: a whole manifest in one transaction.
//!
//! 1. Every item is read and checked on its own.
//! 2. Unless the same request was answered before, names that the manifest does not define are
//!    looked up.
//! 3. Without an error, everything is written: projects, queues, calendars and functions, then
//!    templates and jobs, then dependencies, and last notification channels and rules. Each kind is
//!    written by name, so that two manifests lock rows in the same order.
//!
//! An error that only a constraint can find (a taken singleton, a cycle) ends the transaction and is
//! reported alone. After any error, nothing was written. A dry run does all of
//! this, including constraints, and rolls it back.

mod checks;
mod functions;
mod references;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use actix_web::HttpResponse;
use sched_model::definitions::calendars::CalendarSettings;
use sched_model::definitions::functions::Change;
use sched_model::definitions::templates::TemplateSettings;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::JobSettings;
use sched_model::jobs::{ParsedCalendars, SaveError, SaveMode, SavedJob, Saving, Writing};
use sched_model::{
    Conn, DbError,
    connection::notify,
    definitions::{dependencies, secrets},
    dispatching::quotas,
    events::append,
};
use sched_wire::{Applied, ApplyQuery, ApplyResult, FieldChange, Kind};

pub(crate) use self::checks::missing_secrets;
use self::checks::{missing, validate};
use crate::convert::IntoWire;
use crate::convert::manifest::{self, CheckedManifest};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::reply::Reply;
use crate::http::route::allowed;
use crate::identity::{Actor, Identity};
use crate::routes::jobs::{JobEvent, append_job_events};
use crate::routes::named_resource::{is_system_queue, may_touch_built_in};
use crate::routes::notes::Notes;
use crate::routes::{
    built_in, compute,
    operations::{auditing, notifications},
};

/// `POST /apply`
pub(crate) async fn apply(
    call: Call,
    Query(query): Query<ApplyQuery>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let (body, timezone) = (body.required()?, call.state.default_timezone.clone());
    let checked = compute(move || manifest::read(body, &timezone)).await?;
    let work = Work {
        tenant,
        by: &call.by,
        checked: &checked,
        at: Mutex::default(),
        parsed: ParsedCalendars::default(),
    };
    if query.dry_run {
        let rehearsed = call
            .state
            .rehearse(&call.identity, "rehearse_apply", async |conn: &mut Conn| {
                work.run(conn, &call.identity).await
            })
            .await?;
        let (results, missing_secrets) = rehearsed;
        return Ok(Reply::ok(&ApplyResult { results, missing_secrets, dry_run: true })?.into_response());
    }
    let written = call
        .write("apply", async |conn: &mut Conn| {
            // Only now: a repeated request gets its stored answer, even if its names no longer
            // exist.
            let (results, missing_secrets) = work.run(conn, &call.identity).await?;
            let changed = |result: &&Applied| result.change != sched_wire::Change::Unchanged;
            let counted = (results.len(), results.iter().filter(changed).count());
            let queues = results.iter().filter(changed).filter(|result| result.kind == Kind::Queue);
            let queues: Vec<String> = queues.map(|result| result.name.clone()).collect();
            let result = ApplyResult { results, missing_secrets, dry_run: false };
            Ok::<_, ApiError>((Reply::ok(&result)?, (counted, queues)))
        })
        .await?;
    if let Some(((items, changed), queues)) = written.extra {
        if !queues.is_empty() {
            crate::routes::definitions::queues::notify_workers(&call.state, &queues).await;
        }
        if changed > 0 && !checked.rules.is_empty() {
            call.state
                .hint("the leader", async |conn: &mut Conn| notify::notifications_wanted(conn).await)
                .await;
        }
        tracing::info!(apply.items = items, apply.changed = changed, "manifest applied");
    }
    Ok(written.response)
}

struct Work<'a> {
    tenant: TenantId,
    by: &'a Actor,
    checked: &'a CheckedManifest,
    /// The current item: the transaction's error has no place for its position.
    at: Mutex<String>,
    /// A thousand jobs may name the same calendar.
    parsed: ParsedCalendars,
}

impl Work<'_> {
    /// Returns the results, and the missing secrets. Runs again after a serialization conflict.
    async fn run(
        &self,
        conn: &mut Conn,
        identity: &Identity,
    ) -> Result<(Vec<Applied>, Vec<String>), ApiError> {
        validate(conn, self.tenant, self.checked).await?;
        let (jobs, functions) = self
            .checked
            .jobs
            .iter()
            .map(|(_, job)| (job.name.as_str(), job.function.as_str()))
            .unzip::<_, _, Vec<_>, Vec<_>>();
        built_in::jobs(conn, identity, &jobs).await?;
        built_in::functions(conn, identity, &functions).await?;
        let (applied, secrets) = self.write(conn).await?;
        // Any caller may apply a manifest with unchanged queues.
        let is_changed =
            |one: &&Applied| one.kind == Kind::Queue && one.change != sched_wire::Change::Unchanged;
        for queue in applied.iter().filter(is_changed) {
            allowed(Permission::QueuesWrite.into(), Some(identity))?;
            may_touch_built_in(identity, is_system_queue(self.tenant, &queue.name))?;
        }
        let named = secrets.iter().chain(&self.checked.secrets).map(String::as_str).collect();
        let missing = secrets::unknown_names(conn, self.tenant, named).await?;
        Ok((applied, missing.into_iter().map(str::to_owned).collect()))
    }

    /// Returns also the names of secrets in place of hidden values.
    async fn write(&self, conn: &mut Conn) -> Result<(Vec<Applied>, BTreeSet<String>), ApiError> {
        let mut notes = Notes::default();
        let written = self.write_jobs(conn, &mut notes).await;
        let (mut applied, saved) = written.map_err(|error| self.refused(error))?;
        let others = notifications::applied::write(conn, self.checked, self.by, &mut notes).await?;
        notes.write(conn).await?;
        let events: Vec<JobEvent<'_>> = saved.iter().filter_map(|(_, saved)| job_event(saved)).collect();
        append_job_events(conn, &events, self.by).await?;
        let jobs = saved.into_iter().map(|(position, saved)| Ok((position, applied_job(saved)?)));
        applied.extend(in_order(jobs.collect::<Result<_, ApiError>>()?).chain(others));
        Ok((applied, notes.secrets))
    }

    async fn write_jobs(
        &self,
        conn: &mut Conn,
        notes: &mut Notes,
    ) -> Result<(Vec<Applied>, Vec<(usize, SavedJob)>), SaveError> {
        let settings: Vec<&JobSettings> = self.checked.jobs.iter().map(|(_, settings)| settings).collect();
        let quota = quotas::hold_jobs(conn, self.tenant).await?;
        dependencies::serialise(conn, self.tenant, settings.iter().copied()).await?;
        let mut projects = Vec::new();
        for (position, (at, settings)) in by_name(&self.checked.projects, |settings| &settings.name) {
            self.begin(at);
            projects.push((
                position,
                crate::routes::definitions::projects::write(conn, settings, self.by, notes).await?,
            ));
        }
        let mut queues = Vec::new();
        for (position, (at, settings)) in by_name(&self.checked.queues, |settings| &settings.name) {
            self.begin(at);
            queues.push((
                position,
                crate::routes::definitions::queues::write(conn, settings, self.by, notes).await?,
            ));
        }
        let mut calendars = Vec::new();
        for (position, (at, settings)) in by_name(&self.checked.calendars, |settings| &settings.name) {
            self.begin(at);
            calendars.push((position, self.write_calendar(conn, settings, notes).await?));
        }
        let mut functions = Vec::new();
        for (position, (at, settings)) in by_name(&self.checked.functions, |settings| &settings.name) {
            self.begin(at);
            functions.push((position, self.write_function(conn, settings, notes).await?));
        }
        let mut templates = Vec::new();
        for (position, (at, settings)) in by_name(&self.checked.templates, |settings| &settings.name) {
            self.begin(at);
            templates.push((position, self.write_template(conn, settings, notes).await?));
        }
        dependencies::lock_jobs(conn, self.tenant, &settings).await?;
        let mut saved = Vec::new();
        for (position, (at, settings)) in by_name(&self.checked.jobs, |settings| &settings.name) {
            self.begin(at);
            saved.push((position, self.write_job(conn, settings, notes).await?));
        }
        let dependents: Vec<_> = saved.iter().filter_map(|(_, saved)| saved.new_dependent()).collect();
        dependencies::replace(conn, self.tenant, &dependents).await?;
        let made = saved.iter().filter(|(_, saved)| saved.change == Change::Created).count();
        quota.check(conn, made).await?;
        let definitions = [projects, queues, calendars, functions, templates];
        Ok((definitions.into_iter().flat_map(in_order).collect(), saved))
    }

    async fn write_calendar(
        &self,
        conn: &mut Conn,
        settings: &CalendarSettings,
        notes: &mut Notes,
    ) -> Result<Applied, SaveError> {
        let saved =
            crate::routes::definitions::calendars::write(conn, settings, self.by, &mut notes.entries).await?;
        let change = saved.change.into_wire();
        // A manifest has the fields of a definition beside the others.
        let in_file = |field: FieldChange| match field.pointer.strip_prefix("/definition") {
            Some(pointer) => FieldChange { pointer: pointer.to_owned(), ..field },
            None => field,
        };
        Ok(Applied {
            kind: Kind::Calendar,
            name: saved.calendar.name,
            id: Some(saved.calendar.id),
            change,
            version: Some(saved.calendar.version),
            changes: notes.fields(change).into_iter().map(in_file).collect(),
        })
    }

    async fn write_template(
        &self,
        conn: &mut Conn,
        settings: &TemplateSettings,
        notes: &mut Notes,
    ) -> Result<Applied, SaveError> {
        let saved = crate::routes::definitions::templates::write(conn, settings, self.by, notes).await?;
        let change = saved.change.into_wire();
        Ok(Applied {
            kind: Kind::Template,
            name: saved.template.name,
            id: Some(saved.template.id),
            change,
            version: Some(saved.template.version),
            changes: notes.fields(change),
        })
    }

    async fn write_job(
        &self,
        conn: &mut Conn,
        settings: &JobSettings,
        notes: &mut Notes,
    ) -> Result<SavedJob, SaveError> {
        let writing = Writing::new(SaveMode::Upsert, &self.by.source);
        let saved =
            Saving { tenant: self.tenant, settings, parsed: &self.parsed, writing }.save(conn).await?;
        if saved.change != Change::Unchanged {
            notes.entries.push(auditing::of_job(&saved, self.by));
        }
        Ok(saved)
    }

    fn begin(&self, at: &str) {
        // The text is only replaced as a whole, so a panic elsewhere cannot leave half of it.
        at.clone_into(&mut self.at.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn refused(&self, error: SaveError) -> ApiError {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let concurrent = |what: &str| {
            let message = format!(
                "another request created {what} of this name at the same moment; send the request again"
            );
            let pointer = format!("{at}/name");
            ApiError::Refused(vec![FieldError { reason: Reason::Concurrent, pointer, message }])
        };
        match &error {
            SaveError::Dependency { job, .. } => {
                // This error is found after all jobs are written.
                let own = self.checked.jobs.iter().find(|(_, settings)| settings.name == *job);
                return field_error::save_refused(error, own.map_or("", |(at, _)| at));
            }
            SaveError::Quota { .. } => return field_error::save_refused(error, ""),
            SaveError::Exists(_) => return concurrent("a job"),
            SaveError::Database(DbError::Constraint { name, .. }) => match name.as_str() {
                "task_functions_name_key" => return concurrent("a task function"),
                "task_functions_queue_fkey" => {
                    let queue = self.checked.functions.iter().find(|(own, _)| *own == at);
                    let name = queue.map_or("", |(_, settings)| settings.queue.as_str());
                    return ApiError::Refused(vec![missing(format!("{at}/queue"), "queue", name)]);
                }
                _ => {}
            },
            _ => {}
        }
        field_error::save_refused(error, &at)
    }
}

fn job_event(saved: &SavedJob) -> Option<JobEvent<'_>> {
    let event_type = match saved.change {
        Change::Created => append::JOB_CREATED,
        Change::Updated => append::JOB_UPDATED,
        Change::Unchanged => return None,
    };
    Some(JobEvent { event_type, job: &saved.job })
}

fn applied_job(saved: SavedJob) -> Result<Applied, ApiError> {
    let before = saved.before.as_ref().filter(|_| saved.change == Change::Updated);
    let changes =
        before.map(|before| crate::routes::jobs::changes(before, &saved.job.settings)).transpose()?;
    Ok(Applied {
        kind: Kind::Job,
        name: saved.job.settings.name,
        id: Some(saved.job.id.0),
        change: saved.change.into_wire(),
        version: Some(saved.job.state.version),
        changes: changes.unwrap_or_default(),
    })
}

pub(crate) fn by_name<T>(items: &[(String, T)], name: impl Fn(&T) -> &String) -> Vec<(usize, &(String, T))> {
    let mut sorted: Vec<_> = items.iter().enumerate().collect();
    sorted.sort_by(|(_, (_, a)), (_, (_, b))| name(a).cmp(name(b)));
    sorted
}

pub(crate) fn in_order(mut results: Vec<(usize, Applied)>) -> impl Iterator<Item = Applied> {
    results.sort_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, applied)| applied)
}
