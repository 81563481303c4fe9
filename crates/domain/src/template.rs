//! Templates of jobs: the fields of a job with placeholders, `{{name}}`, for the values of declared
//! parameters.
//!
//! Values are inserted into JSON values and never into JSON text. So a value can become the text,
//! the number or the list at its placeholder, and cannot change anything else. A string that is one
//! placeholder becomes the value itself, with its type; within other text the value becomes text.
//! Keys are never filled in. The result is validated like any other job. The size of the result is
//! bounded, independent of the number of placeholders. Pure.

mod filling;
mod parameter;
mod places;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::parameter::{Parameter, ParameterType, Parameters};

use self::places::Text;

/// Most parameters of a template.
pub const MOST_PARAMETERS: usize = 50;

/// A mistake and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// A JSON pointer, into the template or into the values.
    pub pointer: String,
    /// The mistake and the fix.
    pub message: String,
}

impl Wrong {
    fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// The parameters of a job that is created from it.
    pub parameters: Parameters,
    /// The fields of a job, with placeholders.
    pub job: Map<String, Value>,
}

/// The template of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MadeFrom {
    pub template: String,
    pub version: i64,
    /// The given parameters.
    pub parameters: Map<String, Value>,
}

impl Template {
    /// Its mistakes, by pointers into an object of `parameters` and `job`. Does not check whether
    /// the result is a valid job.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Wrong> {
        let mut found = Vec::new();
        if self.parameters.len() > MOST_PARAMETERS {
            let message =
                format!("has {} parameters; a template has at most {MOST_PARAMETERS}", self.parameters.len());
            found.push(Wrong::at("/parameters", message));
        }
        for (name, parameter) in &self.parameters {
            parameter.mistakes(name, &mut found);
        }
        let mut used = Vec::new();
        for (key, value) in &self.job {
            self.look(value, &below("/job", key), &mut used, &mut found);
        }
        for name in self.parameters.keys().filter(|name| !used.contains(name)) {
            let message =
                format!("is used nowhere in `job`; write {{{{{name}}}}} where it belongs, or remove it");
            found.push(Wrong::at(below("/parameters", name), message));
        }
        found
    }

    /// Checks the placeholders within a value.
    fn look<'a>(&'a self, value: &Value, at: &str, used: &mut Vec<&'a String>, found: &mut Vec<Wrong>) {
        match value {
            Value::String(text) => match Text::parse(text) {
                Ok(text) => self.look_at_text(&text, at, used, found),
                Err(message) => found.push(Wrong::at(at, message)),
            },
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.look(item, &format!("{at}/{index}"), used, found);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    let at = below(at, key);
                    if places::has_any(key) {
                        found.push(Wrong::at(&*at, "keys are not filled in; only values are"));
                    }
                    self.look(value, &at, used, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn look_at_text<'a>(&'a self, text: &Text, at: &str, used: &mut Vec<&'a String>, found: &mut Vec<Wrong>) {
        for name in text.names() {
            let Some((name, parameter)) = self.parameters.get_key_value(name) else {
                found.push(Wrong::at(at, format!("there is no parameter {name:?}; {}", self.known())));
                continue;
            };
            used.push(name);
            if text.is_one_place() {
                continue;
            }
            if !parameter.kind.is_scalar() {
                let message = format!("{name} is of type {} and cannot be used within text", parameter.kind);
                found.push(Wrong::at(at, message));
            } else if !parameter.always_has_value() {
                let message =
                    format!("{name} may have no value, and the text around it needs one: give it a default");
                found.push(Wrong::at(at, message));
            }
        }
    }

    /// The parameters of the placeholders at `pointer` in a job that was created from it, in their
    /// order.
    #[must_use]
    pub fn behind(&self, pointer: &str) -> Vec<String> {
        let mut steps =
            pointer.trim_start_matches('/').split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let Some(mut node) = steps.next().and_then(|first| self.job.get(&first)) else { return Vec::new() };
        for step in steps {
            let next = match node {
                Value::Object(fields) => fields.get(&step),
                Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
                // The value of a placeholder may be nested deeper than the placeholder.
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

    /// The names of the parameters, for messages.
    fn known(&self) -> String {
        if self.parameters.is_empty() {
            return "it has no parameters".to_owned();
        }
        let names: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
        format!("use one of {}", names.join(", "))
    }
}

/// Whether a part of a template has placeholders.
#[must_use]
pub fn has_places(value: &Value) -> bool {
    let mut found = Vec::new();
    places::collect(value, &mut found);
    !found.is_empty()
}

/// The pointer of the value under a key.
fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests;
