//! Schemas of arguments: which arguments a task function accepts (JSON Schema 2020-12).
//!
//! A schema is text from a tenant, so the cost of validation must not depend on it: `$ref` resolves
//! only within the schema and never in a cycle, [`work`] bounds the evaluation per value, and
//! patterns match in linear time. Nothing is fetched. `format` is checked where the library knows
//! it, because an author of `"format": "date-time"` expects that. The exception is `regex`: the
//! library would compile a value. A pattern has the syntax of the crate `regex`, without
//! look-around and back-references.

mod work;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// Longest schema, as compact JSON in bytes.
pub const LONGEST_SCHEMA: usize = 32 * 1024;
/// Most parts of a schema that may apply to one value. A keyword counts one, each entry of its list
/// of values or names one, and a pattern 25.
pub const MOST_PARTS: u64 = 1000;
/// Deepest nesting of schemas, with `$ref` resolved.
pub const DEEPEST: usize = 64;
/// Schema parts times values. Above this the arguments are rejected without an evaluation.
const MOST_WORK: u64 = 500_000;
/// Up to this much work, all mistakes are collected; the library keeps every one in memory. Above
/// it, only the first mistake is reported.
const WORK_FOR_ALL: u64 = 20_000;
/// Most mistakes in one report.
const MOST_MISTAKES: usize = 20;
/// Largest compiled pattern, in bytes.
const LARGEST_PATTERN: usize = 64 * 1024;
/// Number of parsed schemas in the cache: jobs are written, and triggered, by the hundred.
const KEPT: usize = 4;
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// One mistake in a schema or in arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// JSON pointer to the place.
    pub pointer: String,
    pub message: String,
}

impl Misfit {
    fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// A schema that validates arguments.
pub struct ArgsSchema {
    validator: Validator,
    parts: u64,
}

impl fmt::Debug for ArgsSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgsSchema").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl ArgsSchema {
    /// Parses a schema. The error has the location and the reason.
    pub fn parse(schema: &Value) -> Result<Self, Misfit> {
        if !schema.is_object() {
            return Err(Misfit::new("", "must be an object: a JSON Schema (2020-12) of the arguments"));
        }
        let length = schema.to_string().len();
        if length > LONGEST_SCHEMA {
            let message = format!("is {length} bytes long; at most {LONGEST_SCHEMA} are taken");
            return Err(Misfit::new("", message));
        }
        let parts = work::parts(schema)?;
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN))
            .should_validate_formats(true)
            .with_format("regex", |_| true)
            .offline();
        let validator = options.build(schema).map_err(|error| {
            let message = format!("is not a valid JSON Schema (2020-12): {}", error.masked());
            Misfit::new(error.instance_path().as_str(), message)
        })?;
        Ok(Self { validator, parts })
    }

    /// The mistakes in arguments; empty if they match.
    #[must_use]
    pub fn misfits(&self, args: &Value) -> Vec<Misfit> {
        let work = work::weight(args).saturating_mul(self.parts);
        if work > MOST_WORK {
            let message = "are too many to validate against the args_schema of the function; send fewer, or simplify the schema";
            return vec![Misfit::new("", message)];
        }
        if work > WORK_FOR_ALL {
            return self.validator.validate(args).err().iter().map(misfit_of).collect();
        }
        if self.validator.is_valid(args) {
            return Vec::new();
        }
        self.validator.iter_errors(args).take(MOST_MISTAKES).map(|error| misfit_of(&error)).collect()
    }
}

fn misfit_of(error: &ValidationError<'_>) -> Misfit {
    let rule = error.schema_path().as_str();
    let message = format!("{} (args_schema of the function, {rule})", error.masked());
    Misfit::new(error.instance_path().as_str(), message)
}

/// The mistakes in arguments by the stored schema of their function.
///
/// A stored schema that cannot be parsed (written past the API) is reported as the mistake:
/// arguments that cannot be validated are not accepted.
#[must_use]
pub fn misfits(schema: Option<&Value>, args: &Value) -> Vec<Misfit> {
    let Some(schema) = schema else { return Vec::new() };
    match read(schema) {
        Ok(schema) => schema.misfits(args),
        Err(Misfit { pointer, message }) => {
            let message = format!(
                "cannot be validated against the args_schema of the function, which at {pointer:?} {message}"
            );
            vec![Misfit::new("", message)]
        }
    }
}

/// Parses a schema, or returns it from the cache.
fn read(schema: &Value) -> Result<Arc<ArgsSchema>, Misfit> {
    static READ: Mutex<VecDeque<(Value, Arc<ArgsSchema>)>> = Mutex::new(VecDeque::new());
    let cache = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = cache().iter().find(|(text, _)| text == schema) {
        return Ok(Arc::clone(found));
    }
    let found = Arc::new(ArgsSchema::parse(schema)?);
    let mut cached = cache();
    cached.truncate(KEPT - 1);
    cached.push_front((schema.clone(), Arc::clone(&found)));
    Ok(found)
}

#[cfg(test)]
mod tests;
