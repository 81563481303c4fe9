//! Changing a job in an editor, deleting and restoring it, and what it was.
//!
//! An edit begins at a version and is written over that version alone. The text that was typed is never lost: the file it stands in is
//! removed only when the API has taken it, or when nothing was changed.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, anyhow};
use sched_runtime::config::{ProcessEnvironment, Source as _};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{
    FieldChange, Job, JobDeleted, JobSpec, JobVersion, Page, PageQuery, RestoreRequest, RollbackRequest,
};
use serde_json::Value;
use uuid::Uuid;

use super::args::VersionArgs;
use super::{LIST, Session, tell_of_more};
use crate::api::ApiError;
use crate::consent::{self, Unattended};
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Column, or_dash, tell, time};

/// What is edited with when nobody says.
const EDITOR: &str = "vi";

const VERSIONS: &[Column<JobVersion>] = &[
    Column::new("VERSION", |version| version.version.to_string()),
    Column::new("CHANGED", |version| time(version.changed_at)),
    Column::new("BY", |version| version.changed_by.clone()),
    Column::new("CHANGE", |version| match &version.pause_reason {
        Some(reason) => format!("{}: {reason}", version.change),
        None => version.change.to_string(),
    }),
    Column::new("WHAT", |version| or_dash(changes(&version.changes))),
];

const DELETED: &[Column<JobDeleted>] = &[
    Column::new("Deleted", |deleted| deleted.name.clone()),
    Column::new("Cancelled", |deleted| format!("{} that waited", deleted.cancelled)),
    Column::new("Version", |deleted| deleted.version.to_string()),
    Column::new("Id", |deleted| deleted.job_id.to_string()),
];

/// Fields and what became of them, as in `/priority: 5 -> 7`.
pub(super) fn changes(changes: &[FieldChange]) -> Option<String> {
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
    let one = |one: &FieldChange| format!("{}: {} -> {}", one.pointer, shown(&one.before), shown(&one.after));
    let told: Vec<String> = changes.iter().map(one).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

pub(super) async fn versions(name: &str, limit: usize, session: &Session) -> CommandResult {
    let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
    let found = session.api()?.list(&["jobs", name, "versions"], limit, query).await?;
    session.output.page(&found, VERSIONS, "nothing is known of what the job was")?;
    tell_of_more(&found, limit);
    Ok(exit::OK)
}

pub(super) async fn version(name: &str, version: i64, session: &Session) -> CommandResult {
    let number = version.to_string();
    let found: JobVersion = session.api()?.get(&["jobs", name, "versions", &number], &()).await?;
    session.output.record(&found, VERSIONS)?;
    if session.output.is_table() {
        session.output.print(&format!("\n{}", yaml(&found.settings)?))?;
    }
    Ok(exit::OK)
}

pub(super) async fn roll_back(
    name: &str,
    to: i64,
    version: &VersionArgs,
    session: &Session,
) -> CommandResult {
    let tag = version.tag();
    let header = tag.as_deref().map(|tag| ("If-Match", tag));
    let asked = RollbackRequest { version: to };
    let job: Job = session.api()?.post(&["jobs", name, "rollback"], header, &asked).await?;
    session.output.row(&job, LIST)?;
    Ok(exit::OK)
}

pub(super) async fn delete(name: &str, version: &VersionArgs, yes: bool, session: &Session) -> CommandResult {
    // Without a key that can be read there is nothing to agree to.
    let api = session.api()?;
    if !yes {
        consent::ask(
            &format!("job {name} will be deleted, and what waits of it cancelled"),
            "--yes",
            Unattended::GoOn,
        )?;
    }
    let deleted: JobDeleted = api.remove(&["jobs", name], version.tag().as_deref()).await?;
    session.output.record(&deleted, DELETED)?;
    tell(&format!("`schedctl jobs restore {}` brings it back", deleted.job_id));
    Ok(exit::OK)
}

pub(super) async fn restore(name: &str, new_name: Option<String>, session: &Session) -> CommandResult {
    let asked = RestoreRequest { name: new_name };
    let job: Job = session.api()?.post(&["jobs", name, "restore"], None, &asked).await?;
    session.output.row(&job, LIST)?;
    Ok(exit::OK)
}

pub(super) async fn edit(name: &str, session: &Session) -> CommandResult {
    let api = session.api()?;
    let query = PageQuery { limit: Some(1), cursor: None };
    let page: Page<JobVersion> = api.get(&["jobs", name, "versions"], &query).await?;
    let latest = page
        .items
        .into_iter()
        .next()
        .ok_or_else(|| failure(anyhow!("the job has no version to begin at")))?;
    let before = yaml(&latest.settings)?;
    let path = write(&before)?;
    let edited = open(&path).and_then(|()| fs::read_to_string(&path).map_err(failure));
    let kept = |error: ExitError| {
        tell(&format!("the text is kept in {}", path.display()));
        error
    };
    let text = edited.map_err(kept)?;
    if text == before {
        fs::remove_file(&path).map_err(failure)?;
        tell("nothing was changed");
        return Ok(exit::OK);
    }
    let spec: JobSpec = serde_saphyr::from_str(&text)
        .map_err(|error| kept(usage(anyhow::Error::new(error).context("the text describes no job"))))?;
    let tag = format!("\"{}\"", latest.version);
    let written: Result<Job, ApiError> = api.replace(&["jobs", name], &tag, &spec).await;
    let job = written.map_err(|error| {
        if matches!(&error, ApiError::Refused(problem) if problem.code == "version_mismatch") {
            tell(&format!(
                "somebody else has changed the job since version {}; nothing was written",
                latest.version
            ));
        }
        kept(error.into())
    })?;
    fs::remove_file(&path).map_err(failure)?;
    session.output.row(&job, LIST)?;
    Ok(exit::OK)
}

fn yaml(spec: &JobSpec) -> Result<String, ExitError> {
    serde_saphyr::to_string(spec).map_err(failure)
}

/// A new file with the text, for its user alone: arguments of a job are nobody else's business.
fn write(text: &str) -> Result<PathBuf, ExitError> {
    let path = env::temp_dir().join(format!("schedctl-{}.yaml", Uuid::new_v4()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("could not write {}", path.display())).map_err(failure)?;
    Ok(path)
}

/// Opens the file in the user's editor and waits for its end.
fn open(path: &Path) -> Result<(), ExitError> {
    let chosen = ["VISUAL", "EDITOR"].into_iter().find_map(|name| ProcessEnvironment.get(name));
    let editor = chosen.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| EDITOR.to_owned());
    // The variable may hold arguments, as in `code --wait`; the shell takes it apart as everywhere else.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).status();
    let status = status.with_context(|| format!("could not start the editor {editor:?}")).map_err(failure)?;
    if status.success() { Ok(()) } else { Err(failure(anyhow!("the editor {editor:?} ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_told_field_by_field() {
        let change = |pointer: &str, before, after| FieldChange { pointer: pointer.into(), before, after };
        let told = changes(&[change("/a", None, Some(json!("x"))), change("/b", Some(json!(1)), None)]);
        assert_eq!(told.as_deref(), Some("/a: nothing -> \"x\", /b: 1 -> nothing"));
        assert_eq!(changes(&[]), None);
    }

    #[test]
    fn what_is_edited_is_read_back_as_it_was() {
        let spec: JobSpec = serde_json::from_value(json!({
            "name": "a", "function": "f", "job_type": "cron", "schedule_config": {"expression": "0 9 * * *"},
            "task_args": {"text": "a: b\n# no comment", "n": 1.5}, "description": "yes",
        }))
        .unwrap();
        let again: JobSpec = serde_saphyr::from_str(&yaml(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
    }
}
