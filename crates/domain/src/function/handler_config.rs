//! The `handler_config` of a task function, with rules for each handler type.
//!
//! Parses and validates without access to disk, network or environment. The API rejects a
//! configuration that breaks a rule. The worker validates again before an attempt, because a row
//! may be older than a rule. Facts of the worker's machine (does the program exist?) are checked
//! when the attempt starts.

mod confinement;
mod http;
mod native;
mod process;
mod template;
mod text_or_secret;

use std::collections::BTreeSet;
use std::fmt;

pub use confinement::{ResourceLimits, RunAs};
pub use http::*;
pub use native::{NativeConfig, check_handler_name};
pub use process::*;
pub use template::{Form, MissingValue, RunContext, Template, TemplateError, TemplateValues, UpstreamValues};
pub use text_or_secret::{SecretName, TextOrSecret};

/// The worker searches the output of an attempt for each secret, in many encodings.
pub const MOST_SECRETS: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path below `handler_config`, such as `env.LD_PRELOAD`; empty for the whole object.
    pub field: String,
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

#[derive(Default)]
struct Mistakes(Vec<FieldError>);

impl Mistakes {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), message: message.into() });
    }

    fn check_secrets<'a>(&mut self, field: &str, values: impl Iterator<Item = &'a TextOrSecret>) {
        let names = values.filter_map(|value| match value {
            TextOrSecret::Secret(name) => Some(name.secret.as_str()),
            TextOrSecret::Text(_) => None,
        });
        if names.collect::<BTreeSet<_>>().len() > MOST_SECRETS {
            self.add(field, format!("names more than {MOST_SECRETS} secrets"));
        }
    }

    fn finish(self) -> Result<(), Vec<FieldError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}
