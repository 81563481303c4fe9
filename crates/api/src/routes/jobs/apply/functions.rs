//! Functions of a manifest. A placeholder of a hidden value keeps the stored value. Where none is
//! stored, as on another installation, it becomes the name of a secret that a user has to set.

use sched_model::definitions::functions::{self, Change, FunctionSettings};
use sched_model::domain::ids::TenantId;
use sched_model::domain::secret::named_secrets;
use sched_model::jobs::SaveError;
use sched_model::{Conn, DbResult};
use sched_wire::{Applied, FieldChange, Kind};
use serde_json::Value;

use super::Work;
use crate::convert::hidden::hidden_values;
use crate::convert::manifest::CheckedManifest;
use crate::convert::{IntoWire, hidden, spec};
use crate::error::field_error::FieldError;
use crate::routes::notes::Notes;
use crate::routes::operations::auditing;

impl Work<'_> {
    pub(super) async fn write_function(
        &self,
        conn: &mut Conn,
        settings: &FunctionSettings,
        notes: &mut Notes,
    ) -> Result<Applied, SaveError> {
        let before = functions::by_name(conn, self.tenant, &settings.name).await?;
        let kept = before.as_ref().map(|function| &function.settings.handler_config);
        let (settings, _) = &without_placeholders(settings, kept);
        let names = named_secrets(&settings.handler_config);
        notes.secrets.extend(names.into_iter().map(|secret| secret.name));
        if before.as_ref().is_some_and(|function| function.is_system && function.settings != *settings) {
            return Err(SaveError::BuiltIn(settings.name.clone()));
        }
        let (id, change) = functions::save(conn, self.tenant, settings).await?;
        if change != Change::Unchanged {
            let before = before.as_ref().map(|function| &function.settings);
            notes.entries.push(auditing::of_function(id, before, settings, self.by));
            notes.events.push(crate::routes::definitions::functions::written(
                change,
                &settings.name,
                self.by,
            ));
        }
        let change = change.into_wire();
        let mut changes = notes.fields(change);
        if let Some(before) = &before {
            let unseen = hidden::hidden_changes(&before.settings.handler_config, &settings.handler_config);
            let in_file = |field: FieldChange| FieldChange {
                pointer: format!("/handler_config{}", field.pointer),
                ..field
            };
            changes.extend(unseen.into_iter().map(in_file));
        }
        Ok(Applied {
            kind: Kind::TaskFunction,
            name: settings.name.clone(),
            id: Some(id.0),
            change,
            version: None,
            changes,
        })
    }
}

/// The settings with stored values, or names of secrets, in place of placeholders. Also the pointers
/// of placeholders without a stored value.
fn without_placeholders(
    settings: &FunctionSettings,
    kept: Option<&Value>,
) -> (FunctionSettings, Vec<String>) {
    let mut replaced = settings.clone();
    let unknown = hidden::put_back_hidden(&mut replaced.handler_config, kept);
    hidden::name_secrets(&mut replaced.handler_config, kept, &settings.name, &unknown);
    (replaced, unknown)
}

/// Mistakes about placeholders: a reserved name of a variable, or a missing one of several signing
/// secrets.
pub(super) async fn mistakes_of_hidden(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> DbResult<Vec<FieldError>> {
    let mut mistakes = Vec::new();
    for (at, settings) in &checked.functions {
        if hidden_values(&settings.handler_config).is_empty() {
            continue;
        }
        let before = functions::by_name(conn, tenant, &settings.name).await?;
        let kept = before.as_ref().map(|function| &function.settings.handler_config);
        let (replaced, unknown) = without_placeholders(settings, kept);
        let ambiguous = unknown.iter().filter(|pointer| hidden::is_ambiguous(pointer, kept));
        mistakes.extend(ambiguous.map(|pointer| spec::sent_back(at, pointer)));
        mistakes.extend(spec::replaced_mistakes(&replaced, at));
    }
    Ok(mistakes)
}
