//! Templates of jobs: fields with placeholders, `{{name}}`, for the values of declared parameters.
//!
//! Values are inserted into JSON values and never into JSON text, so a value cannot change anything
//! beside its placeholder. A string that is one placeholder becomes the value with its type; within
//! other text the value becomes text. Keys are never filled in. The result is validated like any
//! other job; its size is bounded. Pure.

mod filling;
mod parameter;
mod places;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::parameter::{Parameter, ParameterType, Parameters};

use self::places::Text;

pub const MOST_PARAMETERS: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateMistake {
    /// JSON pointer into the template or the values.
    pub pointer: String,
    pub message: String,
}

impl TemplateMistake {
    fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pub parameters: Parameters,
    /// The fields of a job, with placeholders.
    pub job: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MadeFrom {
    pub template: String,
    pub version: i64,
    /// The given parameters.
    pub parameters: Map<String, Value>,
}

impl Template {
    /// Pointers go into an object of `parameters` and `job`. Does not check whether the result is a
    /// valid job.
    #[must_use]
    pub fn mistakes(&self) -> Vec<TemplateMistake> {
        let mut found = Vec::new();
        if self.parameters.len() > MOST_PARAMETERS {
            let message =
                format!("has {} parameters; a template has at most {MOST_PARAMETERS}", self.parameters.len());
            found.push(TemplateMistake::at("/parameters", message));
        }
        for (name, parameter) in &self.parameters {
            parameter.mistakes(name, &mut found);
        }
        let mut places = PlaceCheck { template: self, used: Vec::new(), found };
        for (key, value) in &self.job {
            places.check(value, &below("/job", key));
        }
        let PlaceCheck { used, mut found, .. } = places;
        for name in self.parameters.keys().filter(|name| !used.contains(name)) {
            let message =
                format!("is used nowhere in `job`; write {{{{{name}}}}} where it belongs, or remove it");
            found.push(TemplateMistake::at(below("/parameters", name), message));
        }
        found
    }

    #[must_use]
    pub fn behind(&self, pointer: &str) -> Vec<String> {
        let mut steps =
            pointer.trim_start_matches('/').split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let Some(mut node) = steps.next().and_then(|first| self.job.get(&first)) else { return Vec::new() };
        for step in steps {
            let next = match node {
                Value::Object(fields) => fields.get(&step),
                Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
                // The value may be nested deeper than its placeholder.
                Value::String(_) => break,
                Value::Null | Value::Bool(_) | Value::Number(_) => None,
            };
            let Some(next) = next else { return Vec::new() };
            node = next;
        }
        let mut found = Vec::new();
        places::collect(node, &mut found);
        found
    }

    fn list_parameters(&self) -> String {
        if self.parameters.is_empty() {
            return "it has no parameters".to_owned();
        }
        let names: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
        format!("use one of {}", names.join(", "))
    }
}

/// A check of the placeholders in a template.
struct PlaceCheck<'a> {
    template: &'a Template,
    /// The names of the parameters that have a placeholder.
    used: Vec<&'a String>,
    found: Vec<TemplateMistake>,
}

impl PlaceCheck<'_> {
    fn check(&mut self, value: &Value, at: &str) {
        match value {
            Value::String(text) => match Text::parse(text) {
                Ok(text) => self.check_text(&text, at),
                Err(message) => self.found.push(TemplateMistake::at(at, message)),
            },
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check(item, &format!("{at}/{index}"));
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    let at = below(at, key);
                    if places::has_any(key) {
                        self.found.push(TemplateMistake::at(&*at, "keys are not filled in; only values are"));
                    }
                    self.check(value, &at);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn check_text(&mut self, text: &Text, at: &str) {
        for name in text.names() {
            let Some((name, parameter)) = self.template.parameters.get_key_value(name) else {
                self.found.push(TemplateMistake::at(
                    at,
                    format!("there is no parameter {name:?}; {}", self.template.list_parameters()),
                ));
                continue;
            };
            self.used.push(name);
            if text.is_one_place() {
                continue;
            }
            if !parameter.kind.is_scalar() {
                let message = format!("{name} is of type {} and cannot be used within text", parameter.kind);
                self.found.push(TemplateMistake::at(at, message));
            } else if !parameter.always_has_value() {
                let message =
                    format!("{name} may have no value, and the text around it needs one: give it a default");
                self.found.push(TemplateMistake::at(at, message));
            }
        }
    }
}

#[must_use]
pub fn has_places(value: &Value) -> bool {
    let mut found = Vec::new();
    places::collect(value, &mut found);
    !found.is_empty()
}

fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests;
