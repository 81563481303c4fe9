//! Converts projects. Pure.

use sched_model::definitions::projects::{Project, ProjectSettings};
use sched_model::domain::identity::check_display_name;
use sched_wire as wire;
use serde_json::Value;

use super::spec::{LONGEST_DESCRIPTION, name_mistake};
use crate::error::field_error::{FieldError, read};

pub(crate) fn read_definition(value: Value, at: &str) -> Result<ProjectSettings, Vec<FieldError>> {
    let spec: wire::ProjectDefinition = read(value, at).map_err(|mistake| vec![mistake])?;
    let wire::ProjectDefinition { name, display_name, description } = spec;
    let spec = wire::ProjectSpec { display_name, description: description.unwrap_or_default() };
    let found = settings(&name, spec, at);
    match name_mistake(at, "name", &name) {
        Some(mistake) => Err(std::iter::once(mistake).chain(found.err().unwrap_or_default()).collect()),
        None => found,
    }
}

/// Does not check the name.
pub(crate) fn settings(
    name: &str,
    spec: wire::ProjectSpec,
    at: &str,
) -> Result<ProjectSettings, Vec<FieldError>> {
    let display_name = spec.display_name.unwrap_or_else(|| name.to_owned());
    let mut mistakes = Vec::new();
    if let Err(message) = check_display_name(&display_name) {
        mistakes.push(FieldError::invalid(format!("{at}/display_name"), message));
    }
    if spec.description.chars().count() > LONGEST_DESCRIPTION {
        let message = format!("must be no longer than {LONGEST_DESCRIPTION} characters");
        mistakes.push(FieldError::invalid(format!("{at}/description"), message));
    }
    if spec.description.contains('\0') {
        mistakes.push(FieldError::invalid(format!("{at}/description"), "must not contain NUL"));
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    Ok(ProjectSettings { name: name.to_owned(), display_name, description: spec.description })
}

pub(crate) fn definition(settings: ProjectSettings) -> wire::ProjectDefinition {
    wire::ProjectDefinition {
        display_name: Some(settings.display_name).filter(|shown| *shown != settings.name),
        name: settings.name,
        description: Some(settings.description).filter(|text| !text.is_empty()),
    }
}

pub(crate) fn show(project: Project) -> wire::Project {
    wire::Project {
        id: project.id.0,
        name: project.settings.name,
        display_name: project.settings.display_name,
        description: project.settings.description,
        is_paused: project.is_paused,
        pause_reason: project.pause_reason,
        created_at: project.created_at,
        updated_at: project.updated_at,
    }
}
