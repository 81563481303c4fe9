//! `jobs apply`: applies files, shows a dry run, and deletes undescribed jobs.
//!
//! Writing is one request: all or nothing. Deleting (`--prune`) follows job by job: a command that
//! dies in between can be repeated. A job that changed after it was read is not deleted.

use std::collections::HashSet;

use anyhow::anyhow;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{
    Applied, ApplyQuery, ApplyResult, Change, Job, JobDeleted, JobSpec, JobsQuery, Kind, Manifest, Project,
    Status,
};
use serde::Serialize;
use uuid::Uuid;

use super::super::suggestions;
use super::args::ApplyArgs;
use super::{Session, life, past};
use crate::api::{Api, ApiError};
use crate::commands::definitions::queues;
use crate::consent::{self, WithoutTerminal};
use crate::failure::{CommandResult, usage};
use crate::manifest::{Files, FilesError, ReadFiles};
use crate::output::{Column, List, neutral, or_dash, print_notice};

const EVERY: usize = 1_000_000;
const NAMED: usize = 10;

#[derive(Debug, Serialize)]
struct Outcome {
    #[serde(flatten)]
    applied: ApplyResult,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deleted: Vec<JobDeleted>,
}

#[derive(Debug)]
struct ApplyRow {
    kind: &'static str,
    name: String,
    change: &'static str,
    what: Option<String>,
    version: Option<i64>,
    id: Option<Uuid>,
}

const ROWS: &[Column<ApplyRow>] = &[
    Column::new("KIND", |line| line.kind.to_owned()),
    Column::new("NAME", |line| line.name.clone()),
    Column::new("CHANGE", |line| line.change.to_owned()),
    Column::new("WHAT", |line| or_dash(line.what.as_deref())),
    Column::wide("VERSION", |line| or_dash(line.version)),
    Column::wide("ID", |line| or_dash(line.id)),
];

impl From<&Applied> for ApplyRow {
    fn from(applied: &Applied) -> Self {
        let kind = match applied.kind {
            Kind::Project => "project",
            Kind::Queue => "queue",
            Kind::Calendar => "calendar",
            Kind::TaskFunction => "task function",
            Kind::Template => "template",
            Kind::Job => "job",
            Kind::NotificationChannel => "notification channel",
            Kind::NotificationRule => "notification rule",
        };
        let change = match applied.change {
            Change::Created => "created",
            Change::Updated => "updated",
            Change::Unchanged => "unchanged",
        };
        Self {
            kind,
            name: applied.name.clone(),
            change,
            what: life::changes(&applied.changes),
            version: applied.version,
            id: applied.id,
        }
    }
}

impl From<&JobDeleted> for ApplyRow {
    fn from(deleted: &JobDeleted) -> Self {
        Self {
            kind: "job",
            name: deleted.name.clone(),
            change: "deleted",
            what: None,
            version: Some(deleted.version),
            id: Some(deleted.job_id),
        }
    }
}

pub(super) async fn run(args: ApplyArgs, session: &Session) -> CommandResult {
    let ApplyArgs { file, dry_run, prune, yes } = args;
    let read = ReadFiles::read(&file);
    if !read.is_sound() {
        return Err(refused(read, session).await.into());
    }
    let files = read.files;
    if files.manifest() == Manifest::default() {
        return Err(usage(anyhow!("the files are empty: no jobs and no other definitions")));
    }
    let api = session.api()?;
    let superfluous = match &prune {
        Some(project) => superfluous(&api, project, &files).await?,
        None => Vec::new(),
    };
    if let Some(project) = prune.as_deref().filter(|_| !superfluous.is_empty() && !dry_run && !yes) {
        consent::confirm(&question(project, &superfluous), "--yes", WithoutTerminal::Refuse)?;
    }
    let applied = apply(&api, &files, dry_run).await?;
    let deleted = if dry_run {
        superfluous.iter().map(deletion_of).collect()
    } else {
        delete(&api, superfluous).await?
    };
    let written = scheduled_anew(&applied.results);
    let missing = applied.missing_secrets.clone();
    let lines = applied
        .results
        .iter()
        .map(ApplyRow::from)
        .chain(deleted.iter().map(ApplyRow::from))
        .collect::<Vec<_>>();
    let list = List { items: &lines, columns: ROWS, nothing: "the files describe nothing" };
    session.output.items(&Outcome { applied, deleted }, list)?;
    for name in missing {
        let name = neutral::line(&name);
        print_notice(&format!(
            "the secret {name} does not exist, and runs that need it fail: `schedctl secrets set {name}`"
        ));
    }
    warn_past_fires(&api, &files, &written).await;
    queues::warn_unserved(&api, files.queues()).await;
    if dry_run {
        print_notice("dry run: nothing was written");
    }
    Ok(exit::OK)
}

/// The mistakes of the files, with those that the API, or else an offline check, finds in the sound
/// items.
async fn refused(read: ReadFiles, session: &Session) -> FilesError {
    if !read.can_be_checked() {
        return read.error(Vec::new());
    }
    let checked = match session.api() {
        Ok(api) => {
            let manifest = read.files.manifest_for(api.url());
            let query = ApplyQuery { dry_run: true };
            api.post_with::<ApplyResult>(&["apply"], &query, &manifest).await.map(|_sound| Vec::new())
        }
        Err(_no_api) => return read.offline(),
    };
    match checked {
        Ok(none) => read.error(none),
        Err(ApiError::Refused(problem)) if !problem.errors.is_empty() => read.error(problem.errors),
        Err(_not_checked) => read.offline(),
    }
}

/// An unreadable database clock is no error: everything is already stored.
async fn warn_past_fires(api: &Api, files: &Files, written: &HashSet<String>) {
    let once = |job: &&JobSpec| {
        job.is_enabled && written.contains(&job.name) && job.schedule_config.contains_key("run_at")
    };
    let once: Vec<&JobSpec> = files.jobs().filter(once).collect();
    if once.is_empty() {
        return;
    }
    let Ok(Status { now, .. }) = api.get(&["status"], &()).await else { return };
    for job in once {
        if let Some(note) =
            past::note(&job.schedule_config, job.misfire_policy, job.misfire_grace_seconds, now)
        {
            print_notice(&format!("note: job {}: {note}", neutral::line(&job.name)));
        }
    }
}

fn scheduled_anew(results: &[Applied]) -> HashSet<String> {
    let is_new = |applied: &&Applied| {
        applied.kind == Kind::Job
            && (applied.change == Change::Created
                || applied.changes.iter().any(|change| change.pointer.starts_with("/schedule_config")))
    };
    results.iter().filter(is_new).map(|applied| applied.name.clone()).collect()
}

pub(crate) async fn apply(api: &Api, files: &Files, dry_run: bool) -> Result<ApplyResult, ExitError> {
    let manifest = files.manifest_for(api.url());
    let error = match api.post_with(&["apply"], &ApplyQuery { dry_run }, &manifest).await {
        Ok(result) => return Ok(result),
        Err(error) => suggestions::in_error(api, error).await,
    };
    match error {
        ApiError::Refused(problem) if !problem.errors.is_empty() => Err(files.explain(&problem).into()),
        error => Err(error.into()),
    }
}

/// Jobs of a project that the files do not describe.
///
/// Fails if the project is missing or the files describe none of its jobs (probably a wrong name),
/// and if a remaining job depends on a deleted one.
async fn superfluous(api: &Api, project: &str, files: &Files) -> Result<Vec<Job>, ExitError> {
    let _exists: Project = api.get(&["projects", project], &()).await?;
    if !files.jobs().any(|job| job.project_or_default() == Some(project)) {
        return Err(usage(anyhow!(
            "the files describe no job of the project {project}, so that --prune would delete every one that it has; delete them by name, or \
             the project with `schedctl projects delete`"
        )));
    }
    let query = |limit, cursor| JobsQuery {
        limit: Some(limit),
        cursor,
        project: Some(project.to_owned()),
        ..JobsQuery::default()
    };
    let described: HashSet<&str> = files.jobs().map(|job| job.name.as_str()).collect();
    let mut jobs: Vec<Job> = api.list(&["jobs"], EVERY, query).await?.items;
    jobs.retain(|job| !described.contains(job.name.as_str()));
    let names: HashSet<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    for job in &jobs {
        let of_files = files.jobs().find(|kept| kept.after.iter().any(|after| after.job == job.name));
        let others = job.followed_by.iter().map(|after| after.job.as_str());
        let mut others = others.filter(|name| !names.contains(name) && !described.contains(name));
        if let Some(kept) = of_files.map(|kept| kept.name.as_str()).or_else(|| others.next()) {
            return Err(usage(anyhow!(
                "the job {} is not in the files, and {} runs after it: add it, or remove it from `after` of that job",
                neutral::line(&job.name),
                neutral::line(kept)
            )));
        }
    }
    Ok(jobs)
}

fn question(project: &str, jobs: &[Job]) -> String {
    let names: Vec<_> = jobs.iter().take(NAMED).map(|job| neutral::line(&job.name)).collect();
    let more = if jobs.len() > NAMED { ", …" } else { "" };
    format!(
        "{} jobs of the project {} that are not in the files will be deleted, and their waiting runs cancelled: {}{more}",
        jobs.len(),
        neutral::line(project),
        names.join(", ")
    )
}

fn deletion_of(job: &Job) -> JobDeleted {
    JobDeleted { job_id: job.id, name: job.name.clone(), version: job.version + 1, cancelled: 0 }
}

/// Deletes unchanged jobs one by one; dependent jobs first.
async fn delete(api: &Api, mut jobs: Vec<Job>) -> Result<Vec<JobDeleted>, ExitError> {
    let mut deleted: Vec<JobDeleted> = Vec::new();
    while !jobs.is_empty() {
        let (mut held, mut why, count) = (Vec::new(), None, deleted.len());
        for job in jobs {
            let tag = format!("\"{}\"", job.version);
            match api.remove(&["jobs", &job.id.to_string()], Some(&tag)).await {
                Ok(gone) => deleted.push(gone),
                Err(ApiError::Refused(problem)) if problem.code == "in_use" => {
                    why = Some(ApiError::Refused(problem));
                    held.push(job);
                }
                Err(error) => return Err(failed(error, &deleted)),
            }
        }
        jobs = held;
        if let Some(error) = why.filter(|_| deleted.len() == count) {
            return Err(failed(error, &deleted));
        }
    }
    Ok(deleted)
}

fn failed(error: ApiError, deleted: &[JobDeleted]) -> ExitError {
    print_notice("the files were applied");
    for job in deleted {
        print_notice(&format!("the job {} was deleted", neutral::line(&job.name)));
    }
    error.into()
}
