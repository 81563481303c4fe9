//! Edits a definition in the editor of the user.
//!
//! An edit replaces only the version that was read. After a mistake the editor opens again, with the
//! error on top. The file of the edited text is removed only after the API accepted it or without a
//! change, even if the editor fails.

mod header;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, anyhow};
use sched_runtime::config::{ProcessEnvironment, Source as _};
use sched_runtime::exit::ExitError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::api::ApiError;
use crate::failure::{failure, usage};
use crate::manifest::Single;
use crate::output::print_notice;

const EDITOR: &str = "vi";

/// Lets the user edit `spec` and stores the result with `write`; `None` without a change. If the user
/// gives up after a mistake, or on another error, the text is kept, and the message names the file.
pub(crate) async fn edit<S: Serialize + DeserializeOwned, T>(
    kind: &str,
    spec: &S,
    write: impl AsyncFn(&S) -> Result<T, ApiError>,
) -> Result<Option<T>, ExitError> {
    let editor = editor()?;
    let before = yaml(spec)?;
    let path = save_draft(&before)?;
    let kept = |error: ExitError| {
        print_notice(&format!("the text is kept in {}", path.display()));
        error
    };
    let (mut shown, mut last) = (before, None);
    loop {
        let opened = open(&path, &editor);
        let text = fs::read_to_string(&path).map_err(|error| kept(failure(error)))?;
        match (text == shown, last.take()) {
            (true, None) => {
                fs::remove_file(&path).map_err(failure)?;
                opened?;
                print_notice("nothing was changed");
                return Ok(None);
            }
            (true, Some(error)) => return Err(kept(error)),
            (false, _) => opened.map_err(kept)?,
        }
        let error = match read_and_write(kind, &path, &write).await {
            Ok(written) => {
                fs::remove_file(&path).map_err(failure)?;
                return Ok(Some(written));
            }
            Err(error) => error,
        };
        // A script would make the same mistake again.
        if !error.is_correctable || !io::stdin().is_terminal() {
            return Err(kept(error.error));
        }
        shown = header::with_error(&text, |padded| {
            // A failure leaves the former text, so that only the line of the error may be wrong.
            let _ = fs::write(&path, padded);
            Single::read(&path)
                .and_then(|(file, fields)| file.shape::<S>(fields, &headline(kind)))
                .map_or_else(|shape| shape.to_string(), |_sound| error.error.describe())
        });
        fs::write(&path, &shown).map_err(|error| kept(failure(error)))?;
        last = Some(error.error);
    }
}

struct EditError {
    error: ExitError,
    /// Whether another text may succeed.
    is_correctable: bool,
}

fn headline(kind: &str) -> String {
    format!("the text is not a valid {kind}")
}

async fn read_and_write<S: DeserializeOwned, T>(
    kind: &str,
    path: &Path,
    write: &impl AsyncFn(&S) -> Result<T, ApiError>,
) -> Result<T, EditError> {
    let read = Single::read(path).and_then(|(file, fields)| file.shape(fields, &headline(kind)));
    let spec: S = read.map_err(|error| EditError { error: error.into(), is_correctable: true })?;
    write(&spec).await.map_err(|error| {
        let refusal = match &error {
            ApiError::Refused(problem) => Some(problem),
            _ => None,
        };
        if refusal.is_some_and(|problem| problem.code == "version_mismatch") {
            print_notice(&format!(
                "another client has changed the {kind} in the meantime; nothing was written"
            ));
        }
        let is_correctable = refusal.is_some_and(|problem| problem.status == 422);
        EditError { error: error.into(), is_correctable }
    })
}

pub(crate) fn yaml(spec: &impl Serialize) -> Result<String, ExitError> {
    serde_saphyr::to_string(spec).map_err(failure)
}

/// A private file, since arguments of a job may be confidential.
fn save_draft(text: &str) -> Result<PathBuf, ExitError> {
    let path = env::temp_dir().join(format!("schedctl-{}.yaml", Uuid::new_v4()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("could not write {}", path.display())).map_err(failure)?;
    Ok(path)
}

/// The editor of the user. The default one would wait for ever without a terminal.
fn editor() -> Result<String, ExitError> {
    // An empty variable counts as unset.
    let said = |name| ProcessEnvironment.get(name).filter(|text| !text.trim().is_empty());
    if let Some(editor) = ["VISUAL", "EDITOR"].into_iter().find_map(said) {
        return Ok(editor);
    }
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(EDITOR.to_owned());
    }
    Err(usage(anyhow!(
        "there is no terminal for the editor {EDITOR}; set VISUAL or EDITOR to a command that needs none, or apply a \
         file with `schedctl jobs apply`"
    )))
}

fn open(path: &Path, editor: &str) -> Result<(), ExitError> {
    // The variable may contain arguments (`code --wait`); the shell splits it.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).status();
    let status = status.with_context(|| format!("could not start the editor {editor:?}")).map_err(failure)?;
    if status.success() { Ok(()) } else { Err(failure(anyhow!("the editor {editor:?} ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use sched_wire::JobSpec;
    use serde_json::json;

    use super::*;

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
