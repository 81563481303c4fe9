//! `handler_config` of a `native` function: a function of the worker's own program.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use super::process::{
    DEFAULT_GRACE_SECONDS, DEFAULT_MAX_OUTPUT_BYTES, MAX_GRACE_SECONDS, MAX_OUTPUT_BYTES_LIMIT,
};
use super::{FieldError, MOST_SECRETS, Mistakes};

const LONGEST_NAME: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeConfig {
    /// Registered name of the Rust function in the worker's program.
    pub handler: String,
    /// Names of the secrets the function may read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    /// Whether the claim reads the details of each run for the function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context: bool,
    /// From the cancellation of its token to the drop of its future.
    #[serde(default = "default_grace_seconds")]
    pub grace_seconds: u32,
    /// Half from the head, half from the tail.
    #[serde(default = "default_max_output_bytes")]
    pub max_output_bytes: u64,
}

fn default_grace_seconds() -> u32 {
    DEFAULT_GRACE_SECONDS
}

fn default_max_output_bytes() -> u64 {
    DEFAULT_MAX_OUTPUT_BYTES
}

/// Letters, digits, `.`, `_`, `-`, `:`, so that `billing::invoice` is valid.
pub fn check_handler_name(name: &str) -> Result<(), String> {
    let is_well_formed = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-:".contains(c));
    if is_well_formed && is_of_some_length(name) {
        return Ok(());
    }
    Err(format!("must be 1 to {LONGEST_NAME} ASCII letters, digits, dots, underscores, hyphens or colons"))
}

fn is_of_some_length(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
}

impl NativeConfig {
    /// Reads any serde format. Returns every mistake; a wrong shape is one with an empty field.
    pub fn parse<'de, D: Deserializer<'de>>(from: D) -> Result<Self, Vec<FieldError>> {
        let config = Self::deserialize(from)
            .map_err(|error| vec![FieldError { field: String::new(), message: error.to_string() }])?;
        config.validate()?;
        Ok(config)
    }

    /// Returns every mistake, not only the first.
    pub fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut mistakes = Mistakes::default();
        if let Err(message) = check_handler_name(&self.handler) {
            mistakes.add("handler", message);
        }
        if self.secrets.len() > MOST_SECRETS {
            mistakes.add("secrets", format!("are more than {MOST_SECRETS}"));
        }
        if !self.secrets.iter().all(|name| is_of_some_length(name)) {
            mistakes.add("secrets", format!("must be names of 1 to {LONGEST_NAME} characters"));
        }
        if self.grace_seconds > MAX_GRACE_SECONDS {
            mistakes.add("grace_seconds", format!("must be at most {MAX_GRACE_SECONDS}"));
        }
        if self.max_output_bytes > MAX_OUTPUT_BYTES_LIMIT {
            mistakes.add("max_output_bytes", format!("must be at most {MAX_OUTPUT_BYTES_LIMIT}"));
        }
        mistakes.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(config: Value) -> Vec<String> {
        NativeConfig::parse(config).unwrap_err().into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_name_is_enough() {
        let config = NativeConfig::parse(json!({"handler": "billing::invoice"})).unwrap();
        assert_eq!((config.grace_seconds, config.max_output_bytes), (10, 262_144));
        assert!(config.secrets.is_empty() && !config.context);
    }

    #[test]
    fn secrets_are_named_in_the_config() {
        let config = json!({"handler": "charge", "secrets": ["payments-key"]});
        let read = NativeConfig::parse(config.clone()).unwrap();
        assert!(read.secrets.contains("payments-key"));
        assert_eq!(serde_json::to_value(&read).unwrap()["secrets"], config["secrets"]);
    }

    #[test]
    fn every_mistake_is_named_by_its_field() {
        assert_eq!(fields(json!({})), [""]);
        assert_eq!(fields(json!({"handler": "a", "program": "b"})), [""]);
        assert_eq!(fields(json!({"handler": "a", "secrets": {"key": "in plain text"}})), [""]);
        let wrong = json!({"handler": "no spaces", "secrets": ["", "a"], "grace_seconds": 301,
            "max_output_bytes": 10_000_000});
        assert_eq!(fields(wrong), ["handler", "secrets", "grace_seconds", "max_output_bytes"]);
        assert_eq!(fields(json!({"handler": "x".repeat(101)})), ["handler"]);
    }
}
