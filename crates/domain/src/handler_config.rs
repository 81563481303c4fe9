//! What a task function says about how it is run: its `handler_config`, with rules for each type of handler.
//!
//! Reading and judging only; nothing here looks at a disk, a network or an environment. The API refuses what these rules
//! refuse, and the worker asks them again before it starts anything, because a row may be older than a rule. What
//! only the worker's machine can tell (does the program exist there?) is found out when the attempt starts.

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
pub use template::{Form, MissingValue, Template, TemplateError, TemplateValues};
pub use text_or_secret::{SecretName, TextOrSecret};

/// Most secrets that a function may name: each is looked for, in many forms, in all that an attempt gives back.
pub const MOST_SECRETS: usize = 50;

/// One thing wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field below `handler_config`, such as `env.LD_PRELOAD`; empty when it is the whole object.
    pub field: String,
    /// What is wrong and what is allowed.
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

/// The mistakes found so far.
#[derive(Default)]
struct Mistakes(Vec<FieldError>);

impl Mistakes {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), message: message.into() });
    }

    /// Notes that `field` names too many secrets.
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
