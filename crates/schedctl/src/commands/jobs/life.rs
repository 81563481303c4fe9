//! Edits, deletes and restores a job, and shows its versions.

use anyhow::anyhow;
use sched_runtime::exit;
use sched_wire::{
    FieldChange, Job, JobDeleted, JobSpec, JobVersion, Page, PageQuery, RestoreRequest, RollbackRequest,
};
use serde_json::Value;

use super::args::VersionArgs;
use super::{LIST, Session, print_more};
use crate::commands::jobs::editing::{self, yaml};
use crate::consent::{self, WithoutTerminal};
use crate::failure::{CommandResult, failure};
use crate::output::{Column, or_dash, print_notice, time};

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

/// As in `/priority: 5 -> 7`.
pub(super) fn changes(changes: &[FieldChange]) -> Option<String> {
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
    let one = |one: &FieldChange| format!("{}: {} -> {}", one.pointer, shown(&one.before), shown(&one.after));
    let told: Vec<String> = changes.iter().map(one).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

pub(super) async fn versions(name: &str, limit: usize, session: &Session) -> CommandResult {
    let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
    let found = session.api()?.list(&["jobs", name, "versions"], limit, query).await?;
    session.output.page(&found, VERSIONS, "the job has no stored versions")?;
    print_more(&found, limit);
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
    let request = RollbackRequest { version: to };
    let job: Job = session.api()?.post(&["jobs", name, "rollback"], header, &request).await?;
    session.output.row(&job, LIST)?;
    Ok(exit::OK)
}

pub(super) async fn delete(name: &str, version: &VersionArgs, yes: bool, session: &Session) -> CommandResult {
    let api = session.api()?;
    if !yes {
        // A missing job needs no confirmation.
        let _exists: Job = api.get(&["jobs", name], &()).await?;
        consent::confirm(
            &format!("job {name} will be deleted, and its waiting runs cancelled"),
            "--yes",
            WithoutTerminal::Refuse,
        )?;
    }
    let deleted: JobDeleted = api.remove(&["jobs", name], version.tag().as_deref()).await?;
    session.output.record(&deleted, DELETED)?;
    print_notice(&format!("restore it with `schedctl jobs restore {}`", deleted.job_id));
    Ok(exit::OK)
}

pub(super) async fn restore(name: &str, new_name: Option<String>, session: &Session) -> CommandResult {
    let request = RestoreRequest { name: new_name };
    let job: Job = session.api()?.post(&["jobs", name, "restore"], None, &request).await?;
    session.output.row(&job, LIST)?;
    Ok(exit::OK)
}

pub(super) async fn edit(name: &str, session: &Session) -> CommandResult {
    let (api, path) = (session.api()?, ["jobs", name]);
    let query = PageQuery { limit: Some(1), cursor: None };
    let page: Page<JobVersion> = api.get(&["jobs", name, "versions"], &query).await?;
    let latest =
        page.items.into_iter().next().ok_or_else(|| failure(anyhow!("the job has no version to edit")))?;
    let tag = format!("\"{}\"", latest.version);
    let write = async |spec: &JobSpec| api.replace(&path, &tag, spec).await;
    if let Some(job) = editing::edit("job", &latest.settings, write).await? {
        session.output.row::<Job>(&job, LIST)?;
    }
    Ok(exit::OK)
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
}
