//! Converts templates, and fills templates to jobs. Pure.
//!
//! An error of the resulting job is reported at the parameter that fills the field.

use std::collections::BTreeMap;

use sched_model::definitions::templates::{TemplateRecord, TemplateSettings};
use sched_model::domain::job::JobSettings;
use sched_model::domain::template::{MadeFrom, Parameter, Parameters, Template, TemplateMistake, has_places};
use sched_wire as wire;
use schemars::{JsonSchema as _, SchemaGenerator};
use serde_json::{Map, Value};

use super::spec::{self, LONGEST_DESCRIPTION, name_mistake};
use super::{IntoDomain as _, IntoWire as _};
use crate::convert::response;
use crate::error::ApiError;
use crate::error::field_error::{FieldError, escaped, read};

const SAMPLE: &str = "sample";

pub(crate) fn read_template(
    value: Value,
    at: &str,
    default_timezone: &str,
) -> Result<TemplateSettings, Vec<FieldError>> {
    let spec: wire::TemplateSpec = read(value, at).map_err(|mistake| vec![mistake])?;
    let (name, description) = (spec.name, spec.description.unwrap_or_default());
    let mut mistakes: Vec<FieldError> = name_mistake(at, "name", &name).into_iter().collect();
    if description.chars().count() > LONGEST_DESCRIPTION {
        let message = format!("must be no longer than {LONGEST_DESCRIPTION} characters");
        mistakes.push(FieldError::invalid(format!("{at}/description"), message));
    }
    let parameters = spec.parameters.into_iter().map(|(name, spec)| (name, parameter(spec))).collect();
    let template = Template { parameters, job: spec.job };
    let wrong = template.mistakes();
    if wrong.is_empty() {
        mistakes.extend(job_mistakes(&template, &format!("{at}/job"), default_timezone));
    }
    mistakes.extend(wrong.into_iter().map(|wrong| moved(at, wrong)));
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let parameters =
        stored_parameters(&template.parameters).map_err(|message| vec![FieldError::invalid(at, message)])?;
    Ok(TemplateSettings { name, description, parameters, job: Value::Object(template.job) })
}

fn parameter(spec: wire::ParameterSpec) -> Parameter {
    Parameter {
        kind: spec.kind.into_domain(),
        description: spec.description.unwrap_or_default(),
        required: spec.required.unwrap_or(spec.default.is_none()),
        default: spec.default,
        choices: spec.choices,
    }
}

fn stored_parameters(parameters: &Parameters) -> Result<Value, String> {
    serde_json::to_value(parameters).map_err(|error| error.to_string())
}

fn job_mistakes(template: &Template, at: &str, default_timezone: &str) -> Vec<FieldError> {
    let fields = wire::JobSpec::json_schema(&mut SchemaGenerator::default());
    let fields = fields.get("properties").and_then(Value::as_object);
    let is_field = |key: &str| fields.is_some_and(|fields| fields.contains_key(key));
    let unknown: Vec<FieldError> = template
        .job
        .keys()
        .filter(|key| !is_field(key))
        .map(|key| FieldError::invalid(format!("{at}/{}", escaped(key)), "is not a field of a job"))
        .collect();
    if !unknown.is_empty() {
        return unknown;
    }
    if let Ok(mut job) = template.fill(&Map::new()) {
        // Without placeholders it is a whole job.
        job.entry("name").or_insert_with(|| SAMPLE.into());
        return spec::job(Value::Object(job), at, default_timezone).err().unwrap_or_default();
    }
    // Checks all fields without placeholders.
    let mut job = template.job.clone();
    job.entry("name").or_insert_with(|| SAMPLE.into());
    for (key, value) in &template.job {
        if has_places(value) {
            job.remove(key);
        }
    }
    for (key, stand_in) in [("name", SAMPLE), ("function", SAMPLE), ("job_type", "manual")] {
        if template.job.get(key).is_some_and(has_places) {
            job.insert(key.to_owned(), stand_in.into());
        }
    }
    read::<wire::JobSpec>(Value::Object(job), at).err().into_iter().collect()
}

#[derive(Debug)]
pub(crate) struct TemplateInstance {
    template: Template,
    /// Whether the request, and not the template, named the job.
    is_named: bool,
    pub(crate) settings: JobSettings,
    pub(crate) made_from: MadeFrom,
}

impl TemplateInstance {
    /// Fills a template with values, and checks the resulting job. Errors point into the request.
    pub(crate) fn of(
        record: &TemplateRecord,
        request: &wire::InstantiateRequest,
        default_timezone: &str,
    ) -> Result<Self, ApiError> {
        let template = record.template()?;
        let wrong = |wrong: Vec<TemplateMistake>| {
            ApiError::Refused(wrong.into_iter().map(|one| moved("/parameters", one)).collect())
        };
        let mut job = template.fill(&request.parameters).map_err(wrong)?;
        if let Some(name) = &request.name {
            job.insert("name".to_owned(), name.as_str().into());
        }
        if !job.contains_key("name") {
            let message = format!("is required: the template {:?} sets no name", record.name);
            return Err(ApiError::Refused(vec![FieldError::invalid("/name", message)]));
        }
        let is_named = request.name.is_some();
        let settings = spec::job(Value::Object(job), "", default_timezone)
            .map_err(|mistakes| ApiError::Refused(at_their_source(&template, is_named, mistakes)))?;
        let made_from = MadeFrom {
            template: record.name.clone(),
            version: record.version,
            parameters: request.parameters.clone(),
        };
        Ok(Self { template, is_named, settings, made_from })
    }

    pub(crate) fn refused(&self, error: ApiError) -> ApiError {
        match error {
            ApiError::Refused(mistakes) => {
                ApiError::Refused(at_their_source(&self.template, self.is_named, mistakes))
            }
            error => error,
        }
    }
}

/// Moves errors of a job to the parameters that fill the fields. Errors of the template get no
/// pointer.
fn at_their_source(template: &Template, is_named: bool, mistakes: Vec<FieldError>) -> Vec<FieldError> {
    let moved = |mistake: FieldError| {
        if mistake.pointer.is_empty() || (is_named && mistake.pointer == "/name") {
            return mistake;
        }
        let FieldError { reason, pointer: field, message } = mistake;
        match template.behind(&field).first() {
            Some(name) => FieldError {
                reason,
                pointer: format!("/parameters/{}", escaped(name)),
                message: format!("is invalid for the field {field} of the job: {message}"),
            },
            None => FieldError {
                reason,
                pointer: String::new(),
                message: format!("the template sets an invalid {field}: {message}"),
            },
        }
    };
    mistakes.into_iter().map(moved).collect()
}

fn moved(at: &str, wrong: TemplateMistake) -> FieldError {
    FieldError::invalid(format!("{at}{}", wrong.pointer), wrong.message)
}

pub(crate) fn spec(record: TemplateRecord) -> Result<wire::TemplateSpec, ApiError> {
    let Template { parameters, job } = record.template()?;
    Ok(wire::TemplateSpec {
        name: record.name,
        description: Some(record.description).filter(|text| !text.is_empty()),
        parameters: parameters
            .into_iter()
            .map(|(name, parameter)| (name, parameter_spec(parameter)))
            .collect(),
        job,
    })
}

pub(crate) fn show(record: TemplateRecord) -> Result<wire::Template, ApiError> {
    let Template { parameters, job } = record.template()?;
    let parameters: BTreeMap<String, wire::ParameterSpec> =
        parameters.into_iter().map(|(name, parameter)| (name, parameter_spec(parameter))).collect();
    Ok(wire::Template {
        id: record.id,
        name: record.name,
        description: record.description,
        parameters,
        job,
        version: record.version,
        created_at: record.created_at,
        created_by: record.created_src,
        updated_at: record.updated_at,
        updated_by: record.updated_src,
    })
}

fn parameter_spec(parameter: Parameter) -> wire::ParameterSpec {
    wire::ParameterSpec {
        kind: parameter.kind.into_wire(),
        description: Some(parameter.description).filter(|text| !text.is_empty()),
        default: parameter.default,
        required: Some(parameter.required),
        choices: parameter.choices,
    }
}

pub(crate) fn made_from(kept: Value) -> Option<wire::MadeFrom> {
    // A CHECK guarantees the shape.
    let MadeFrom { template, version, parameters } = serde_json::from_value(kept).ok()?;
    Some(wire::MadeFrom { template, version, parameters })
}

pub(crate) fn spec_of(made: TemplateInstance) -> wire::JobSpec {
    response::spec(made.settings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(body: Value) -> Vec<String> {
        let refused = read_template(body, "", "UTC").err().unwrap_or_default();
        refused.into_iter().map(|mistake| mistake.pointer).collect()
    }

    fn body(parameters: &Value, job: &Value) -> Value {
        json!({"name": "t", "parameters": parameters, "job": job})
    }

    #[test]
    fn template_is_checked_without_values() {
        let text = json!({"x": {"type": "string"}});
        for (parameters, job, expected) in [
            (json!({}), json!({"function": "f", "job_type": "manual"}), &[][..]),
            (json!({}), json!({"function": "f", "job_type": "often"}), &["/job/job_type"]),
            (json!({}), json!({"function": "f", "job_type": "manual", "priority": 101}), &["/job/priority"]),
            (json!({}), json!({"job_type": "manual"}), &["/job/function"]),
            (json!({}), json!({"function": "f", "job_type": "manual", "colour": "red"}), &["/job/colour"]),
            (text.clone(), json!({"function": "{{x}}", "job_type": "manual"}), &[]),
            (text.clone(), json!({"function": "{{x}}", "job_type": "{{x}}", "name": "{{x}}"}), &[]),
            (
                text.clone(),
                json!({"function": "{{x}}", "job_type": "manual", "colour": "{{x}}"}),
                &["/job/colour"],
            ),
            (
                text.clone(),
                json!({"function": "{{x}}", "job_type": "manual", "priority": "high"}),
                &["/job/priority"],
            ),
            (text.clone(), json!({"function": "{{x}}"}), &["/job/job_type"]),
            (text, json!({"function": "{{y}}", "job_type": "manual"}), &["/job/function", "/parameters/x"]),
            (
                json!({"x": {"type": "integer", "default": 101}}),
                json!({"function": "f", "job_type": "manual", "priority": "{{x}}"}),
                &["/job/priority"],
            ),
        ] {
            assert_eq!(pointers(body(&parameters, &job)), expected, "{job}");
        }
        assert_eq!(pointers(json!({"name": "T", "job": {"function": "f", "job_type": "manual"}})), ["/name"]);
    }

    #[test]
    fn template_defaults_round_trip() {
        let written = body(
            &json!({"x": {"type": "string"}, "y": {"type": "integer", "default": 7}}),
            &json!({"function": "{{x}}", "job_type": "manual", "priority": "{{y}}"}),
        );
        let settings = read_template(written, "", "UTC").unwrap();
        assert_eq!(
            settings.parameters,
            json!({"x": {"type": "string", "required": true}, "y": {"type": "integer", "default": 7, "required": false}})
        );
    }
}
