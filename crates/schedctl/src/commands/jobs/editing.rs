//! Edits a definition in the editor of the user.
//!
//! An edit replaces only the version that was read. The file of the edited text is removed only
//! after the API accepted it or without a change, even if the editor fails.

use std::fs::OpenOptions;
use std::io::Write as _;
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
use crate::failure::failure;
use crate::manifest::Single;
use crate::output::print_notice;

const EDITOR: &str = "vi";

/// Lets the user edit `spec` and stores the result with `write`; `None` without a change. After an
/// error the text is kept, and the message names the file.
pub(crate) async fn edit<S: Serialize + DeserializeOwned, T>(
    kind: &str,
    spec: &S,
    write: impl AsyncFnOnce(&S) -> Result<T, ApiError>,
) -> Result<Option<T>, ExitError> {
    let before = yaml(spec)?;
    let path = save_draft(&before)?;
    let opened = open(&path);
    let kept = |error: ExitError| {
        print_notice(&format!("the text is kept in {}", path.display()));
        error
    };
    let text = fs::read_to_string(&path).map_err(|error| kept(failure(error)))?;
    if text == before {
        fs::remove_file(&path).map_err(failure)?;
        opened?;
        print_notice("nothing was changed");
        return Ok(None);
    }
    opened.map_err(kept)?;
    let headline = format!("the text is not a valid {kind}");
    let read = Single::read(&path).and_then(|(file, fields)| file.shape(fields, &headline));
    let spec: S = read.map_err(|error| kept(error.into()))?;
    let written = write(&spec).await.map_err(|error| {
        if matches!(&error, ApiError::Refused(problem) if problem.code == "version_mismatch") {
            print_notice(&format!(
                "another client has changed the {kind} in the meantime; nothing was written"
            ));
        }
        kept(error.into())
    })?;
    fs::remove_file(&path).map_err(failure)?;
    Ok(Some(written))
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

fn open(path: &Path) -> Result<(), ExitError> {
    // An empty variable counts as unset.
    let said = |name| ProcessEnvironment.get(name).filter(|text| !text.trim().is_empty());
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(said).unwrap_or_else(|| EDITOR.to_owned());
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
