//! Parameters of templates: which kind of value each accepts. Pure.

use sched_vocabulary::text_enum;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{TemplateMistake, below};

const LONGEST_NAME: usize = 64;
/// In characters.
const LONGEST_DESCRIPTION: usize = 500;
const MOST_CHOICES: usize = 100;

text_enum! {
    pub enum ParameterType {
        String = "string",
        Integer = "integer",
        Number = "number",
        Boolean = "boolean",
        Array = "array",
        Object = "object",
    }
}

impl ParameterType {
    /// Whether values can be inserted within text.
    pub(super) const fn is_scalar(self) -> bool {
        match self {
            Self::String | Self::Integer | Self::Number | Self::Boolean => true,
            Self::Array | Self::Object => false,
        }
    }

    fn check(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Array => "a list",
            Self::Object => "an object",
        }
    }
}

pub type Parameters = BTreeMap<String, Parameter>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    #[serde(rename = "type")]
    pub kind: ParameterType,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Without a value and a default, the fields at its placeholders are omitted.
    pub required: bool,
    /// Any value of its type when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
}

impl Parameter {
    pub(super) const fn always_has_value(&self) -> bool {
        self.required || self.default.is_some()
    }

    pub(super) fn mistakes(&self, name: &str, found: &mut Vec<TemplateMistake>) {
        let at = below("/parameters", name);
        if !is_name(name) {
            let message = format!(
                "a parameter has a name of up to {LONGEST_NAME} of a-z, 0-9 and _ that begins with a letter"
            );
            found.push(TemplateMistake::at(&*at, message));
        }
        if self.description.chars().count() > LONGEST_DESCRIPTION {
            let message = format!("must be no longer than {LONGEST_DESCRIPTION} characters");
            found.push(TemplateMistake::at(format!("{at}/description"), message));
        }
        if self.choices.len() > MOST_CHOICES {
            let message = format!("has {} values; it may have {MOST_CHOICES}", self.choices.len());
            found.push(TemplateMistake::at(format!("{at}/choices"), message));
        }
        for (index, choice) in self.choices.iter().enumerate().filter(|(_, choice)| !self.kind.check(choice))
        {
            found.push(TemplateMistake::at(format!("{at}/choices/{index}"), self.type_error(choice)));
        }
        let Some(default) = &self.default else { return };
        if self.required {
            let message = "a parameter that must be given has no use for a default; leave out one of the two";
            found.push(TemplateMistake::at(format!("{at}/default"), message));
        } else if let Err(message) = self.check(default) {
            found.push(TemplateMistake::at(format!("{at}/default"), message));
        }
    }

    /// The error is for people.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if !self.kind.check(value) {
            return Err(self.type_error(value));
        }
        if self.choices.is_empty() || self.choices.contains(value) {
            return Ok(());
        }
        let choices: Vec<String> = self.choices.iter().map(Value::to_string).collect();
        Err(format!("must be one of {}", choices.join(", ")))
    }

    pub(super) fn describe(&self) -> String {
        let kind = self.kind.describe();
        match self.description.as_str() {
            "" => kind.to_owned(),
            description => format!("{kind} ({description})"),
        }
    }

    fn type_error(&self, value: &Value) -> String {
        let actual = match value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        let actual = if self.kind == ParameterType::Integer && value.is_f64() {
            "one with a fraction"
        } else {
            actual
        };
        format!("must be {}, not {actual}", self.kind.describe())
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
