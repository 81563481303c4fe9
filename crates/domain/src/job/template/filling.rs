//! Inserts values at the placeholders of a template. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::places::{Piece, Text};
use super::{Template, TemplateMistake, below};

/// In bytes, for all placeholders together: a placeholder may occur a thousand times with a long
/// value.
const LARGEST: usize = 256 * 1024;
/// Deepest nesting: `serde_json` writes a deeper job but cannot read it.
const DEEPEST: usize = 100;

enum Failure {
    TooLarge,
    Broken(String),
}

impl Template {
    /// The template must have no [mistakes](Self::mistakes). An error points into the values; an
    /// empty pointer means all values together.
    pub fn fill(&self, input: &Map<String, Value>) -> Result<Map<String, Value>, Vec<TemplateMistake>> {
        let values = self.values(input)?;
        let mut filling = Filling { values, left: LARGEST };
        let job = filling.object(&self.job).map_err(|failure| {
            let message = match failure {
                Failure::TooLarge => {
                    format!("the values take more than {LARGEST} bytes in the job")
                }
                Failure::Broken(message) => format!("the template is broken: {message}"),
            };
            vec![TemplateMistake::at("", message)]
        })?;
        let deepest = job.values().map(depth).max().unwrap_or_default();
        if deepest > DEEPEST {
            let message = format!("the values nest {deepest} deep in the job; {DEEPEST} is allowed");
            return Err(vec![TemplateMistake::at("", message)]);
        }
        Ok(job)
    }

    /// `None` without a value.
    fn values<'a>(
        &'a self,
        input: &'a Map<String, Value>,
    ) -> Result<BTreeMap<&'a str, Option<&'a Value>>, Vec<TemplateMistake>> {
        let mut wrong = Vec::new();
        for name in input.keys().filter(|name| !self.parameters.contains_key(*name)) {
            wrong.push(TemplateMistake::at(
                below("", name),
                format!("the template has no such parameter; {}", self.list_parameters()),
            ));
        }
        let mut values = BTreeMap::new();
        for (name, parameter) in &self.parameters {
            let value = input.get(name);
            match value.map(|value| parameter.check(value)) {
                None if parameter.required => {
                    let message = format!("must be given: {}", parameter.describe());
                    wrong.push(TemplateMistake::at(below("", name), message));
                }
                Some(Err(message)) => wrong.push(TemplateMistake::at(below("", name), message)),
                None | Some(Ok(())) => {}
            }
            values.insert(name.as_str(), value.or(parameter.default.as_ref()));
        }
        if wrong.is_empty() { Ok(values) } else { Err(wrong) }
    }
}

struct Filling<'a> {
    values: BTreeMap<&'a str, Option<&'a Value>>,
    left: usize,
}

impl Filling<'_> {
    /// `None` for a placeholder whose parameter has no value.
    fn value(&mut self, value: &Value) -> Result<Option<Value>, Failure> {
        match value {
            Value::String(text) => self.text(&Text::parse(text).map_err(Failure::Broken)?),
            Value::Array(items) => {
                let mut filled = Vec::with_capacity(items.len());
                for item in items {
                    filled.extend(self.value(item)?);
                }
                Ok(Some(Value::Array(filled)))
            }
            Value::Object(fields) => self.object(fields).map(|fields| Some(Value::Object(fields))),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Some(value.clone())),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        let mut filled = Map::new();
        for (key, value) in fields {
            if let Some(value) = self.value(value)? {
                filled.insert(key.clone(), value);
            }
        }
        Ok(filled)
    }

    fn text(&mut self, text: &Text) -> Result<Option<Value>, Failure> {
        if let [Piece::Parameter(name)] = text.0.as_slice() {
            let Some(value) = self.of(name)?.cloned() else { return Ok(None) };
            self.take(value.to_string().len())?;
            return Ok(Some(value));
        }
        let mut filled = String::new();
        for piece in &text.0 {
            match piece {
                Piece::Literal(literal) => filled.push_str(literal),
                Piece::Parameter(name) => {
                    let value = match self.of(name)? {
                        Some(Value::String(value)) => value.clone(),
                        Some(value) => value.to_string(),
                        None => return Err(Failure::Broken(format!("{name} has no value within text"))),
                    };
                    self.take(value.len())?;
                    filled.push_str(&value);
                }
            }
        }
        Ok(Some(Value::String(filled)))
    }

    fn of(&self, name: &str) -> Result<Option<&Value>, Failure> {
        let found = self.values.get(name).copied();
        found.ok_or_else(|| Failure::Broken(format!("there is no parameter {name:?}")))
    }

    fn take(&mut self, bytes: usize) -> Result<(), Failure> {
        self.left = self.left.checked_sub(bytes).ok_or(Failure::TooLarge)?;
        Ok(())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
