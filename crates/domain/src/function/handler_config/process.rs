//! `handler_config` of a `process` function: the program and its settings.

mod environment;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use self::environment::refusal;
pub use self::environment::{inheritance_refusal, may_be_secret};
use super::confinement::{ResourceLimits, RunAs};
use super::{FieldError, Mistakes, TextOrSecret};
use crate::secret::check_secret_name;

/// Per stream: 128 KiB of its head and 128 KiB of its tail.
pub const DEFAULT_MAX_OUTPUT_BYTES: u64 = 256 * 1024;
/// Per stream; every slot holds both streams in memory.
pub const MAX_OUTPUT_BYTES_LIMIT: u64 = 4 * 1024 * 1024;
/// Less would cut an ordinary error message.
const MIN_OUTPUT_BYTES: u64 = 1024;
pub const DEFAULT_GRACE_SECONDS: u32 = 10;
/// A draining worker waits for it.
pub const MAX_GRACE_SECONDS: u32 = 300;
/// Below the kernel's limit of 128 KiB for one argument or variable.
const MAX_ARGUMENT_BYTES: usize = 100_000;
/// Linux allows a quarter of the stack limit, which is 2 MiB by default, for all together.
const MAX_ARGUMENTS_BYTES: usize = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// An absolute path, or a bare name that the worker resolves in its fixed `PATH`. Absent when
    /// `shell` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// No shell interprets them. With `shell` they become `$1`, `$2`, ….
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub shell: bool,
    /// Only, and always, with `shell`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Absolute; the private directory of the attempt when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, TextOrSecret>,
    /// Inherited from the worker's environment, if set there and allowed by its operator.
    #[serde(default)]
    pub env_allow: BTreeSet<String>,
    #[serde(default = "default_grace_seconds")]
    pub grace_seconds: u32,
    #[serde(default = "default_success_exit_codes")]
    pub success_exit_codes: BTreeSet<u8>,
    #[serde(default = "default_max_output_bytes")]
    pub max_output_bytes: u64,
    #[serde(default)]
    pub stdin: StdinSource,
    /// If the worker may change users; the worker's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<RunAs>,
    /// For all its processes together; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceLimits>,
    /// Whether the set-user-id bit of programs (`sudo`) has no effect.
    #[serde(default = "yes")]
    pub no_new_privs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StdinSource {
    /// The arguments as JSON.
    #[default]
    Args,
    /// End of file at once.
    None,
}

fn yes() -> bool {
    true
}

fn default_grace_seconds() -> u32 {
    DEFAULT_GRACE_SECONDS
}

fn default_success_exit_codes() -> BTreeSet<u8> {
    BTreeSet::from([0])
}

fn default_max_output_bytes() -> u64 {
    DEFAULT_MAX_OUTPUT_BYTES
}

fn check_text(field: &str, text: &str, mistakes: &mut Mistakes) {
    if text.contains('\0') {
        mistakes.add(field, "contains a NUL character, which no process can be given");
    }
    if text.len() > MAX_ARGUMENT_BYTES {
        mistakes.add(
            field,
            format!("is longer than {MAX_ARGUMENT_BYTES} bytes; pass large values in the job's args"),
        );
    }
}

impl ProcessConfig {
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
        self.check_what_runs(&mut mistakes);
        self.check_environment(&mut mistakes);
        self.check_limits(&mut mistakes);
        if let Some(run_as) = &self.run_as {
            run_as.check(&mut mistakes);
        }
        if let Some(limits) = &self.limits {
            limits.check(&mut mistakes);
        }
        mistakes.finish()
    }

    fn check_what_runs(&self, mistakes: &mut Mistakes) {
        match (self.shell, &self.program, &self.command) {
            (true, None, Some(command)) if command.trim().is_empty() => mistakes.add("command", "is empty"),
            (true, None, Some(command)) => check_text("command", command, mistakes),
            (true, _, None) => mistakes.add("command", "is required when shell is true"),
            (true, Some(_), Some(_)) => {
                mistakes.add("program", "cannot be given together with shell; put it into command");
            }
            (false, _, Some(_)) => mistakes.add("command", "is only for shell: true; use program and args"),
            (false, None, None) => mistakes.add("program", "is required"),
            (false, Some(program), None) => check_program(program, mistakes),
        }
        for (position, argument) in self.args.iter().enumerate() {
            check_text(&format!("args[{position}]"), argument, mistakes);
        }
        if let Some(cwd) = &self.cwd {
            check_text("cwd", cwd, mistakes);
            if !cwd.starts_with('/') {
                mistakes.add("cwd", "must be an absolute path");
            }
        }
    }

    fn check_environment(&self, mistakes: &mut Mistakes) {
        mistakes.check_secrets("env", self.env.values());
        for (name, value) in &self.env {
            let field = format!("env.{name}");
            if let Some(reason) = refusal(name) {
                mistakes.add(field, reason);
                continue;
            }
            match value {
                TextOrSecret::Text(text) => check_text(&field, text, mistakes),
                TextOrSecret::Secret(name) => {
                    if let Err(message) = check_secret_name(&name.secret) {
                        mistakes.add(field, format!("names no secret: a name {message}"));
                    }
                }
            }
        }
        for name in &self.env_allow {
            let field = format!("env_allow.{name}");
            if let Some(reason) = inheritance_refusal(name) {
                mistakes.add(field, reason);
            }
        }
    }

    fn check_limits(&self, mistakes: &mut Mistakes) {
        let words = self.args.iter().chain(&self.program).chain(&self.command).map(String::len);
        let variables =
            self.env.iter().map(|(name, value)| name.len() + value.text().map_or(0, str::len) + 2);
        if words.chain(variables).sum::<usize>() > MAX_ARGUMENTS_BYTES {
            mistakes.add(
                "args",
                format!(
                    "with env make more than {MAX_ARGUMENTS_BYTES} bytes; pass large values in the job's args"
                ),
            );
        }
        if self.grace_seconds > MAX_GRACE_SECONDS {
            mistakes.add("grace_seconds", format!("must be at most {MAX_GRACE_SECONDS}"));
        }
        if self.success_exit_codes.is_empty() {
            mistakes.add("success_exit_codes", "must name at least one exit code, else no run could succeed");
        }
        if !(MIN_OUTPUT_BYTES..=MAX_OUTPUT_BYTES_LIMIT).contains(&self.max_output_bytes) {
            mistakes
                .add("max_output_bytes", format!("must be {MIN_OUTPUT_BYTES} to {MAX_OUTPUT_BYTES_LIMIT}"));
        }
    }
}

fn check_program(program: &str, mistakes: &mut Mistakes) {
    check_text("program", program, mistakes);
    if program.trim().is_empty() {
        mistakes.add("program", "is empty");
    } else if program.starts_with('-') {
        mistakes.add("program", "must not begin with a hyphen");
    } else if program.contains('/') && !program.starts_with('/') {
        mistakes.add("program", "must be an absolute path or a bare name");
    } else if program.ends_with('/') {
        mistakes.add("program", "must name a file, not a directory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Vec<String> {
        let mut reader = serde_json::Deserializer::from_str(json);
        match ProcessConfig::parse(&mut reader) {
            Ok(_) => Vec::new(),
            Err(mistakes) => mistakes.into_iter().map(|mistake| mistake.field).collect(),
        }
    }

    #[test]
    fn a_program_alone_gets_the_defaults() {
        let config: ProcessConfig = serde_json::from_str(r#"{"program": "true"}"#).unwrap();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.success_exit_codes, BTreeSet::from([0]));
        assert_eq!((config.grace_seconds, config.max_output_bytes), (10, 262_144));
        assert_eq!(config.stdin, StdinSource::Args);
    }

    #[test]
    fn good_configurations_are_accepted() {
        for json in [
            r#"{"program": "/usr/bin/pg_dump", "args": ["-Fc", "--", "-x"], "env": {"PGHOST": "/run", "A1_": ""}}"#,
            r#"{"shell": true, "command": "df -h | tail -n +2", "args": ["one"]}"#,
            r#"{"program": "env", "cwd": "/", "env_allow": ["HOME", "PGHOST", "PYTHONUNBUFFERED"]}"#,
            r#"{"program": "diff", "success_exit_codes": [0, 1], "stdin": "none", "grace_seconds": 0}"#,
            r#"{"program": "env", "env": {"MY_TOKEN": "its own secret"}}"#,
            r#"{"program": "env", "env": {"MY_TOKEN": {"secret": "a.token-1"}, "secret": "x"}}"#,
        ] {
            assert_eq!(fields(json), Vec::<String>::new(), "{json}");
        }
    }

    #[test]
    fn each_mistake_names_its_field() {
        let secrets = |count: usize| {
            let all: Vec<String> =
                (0..count).map(|number| format!(r#""V{number}": {{"secret": "s{number}"}}"#)).collect();
            format!(r#"{{"program": "x", "env": {{"TWICE": {{"secret": "s0"}}, {}}}}}"#, all.join(", "))
        };
        assert_eq!((fields(&secrets(50)), fields(&secrets(51))), (vec![], vec!["env".to_owned()]));
        let table: &[(&str, &[&str])] = &[
            (r#"{}"#, &["program"]),
            (r#"{"program": ""}"#, &["program"]),
            (r#"{"program": "-rf"}"#, &["program"]),
            (r#"{"program": "bin/x"}"#, &["program"]),
            (r#"{"program": "/usr/bin/"}"#, &["program"]),
            (r#"{"program": "a\u0000b"}"#, &["program"]),
            (r#"{"program": "x", "args": ["ok", "a\u0000b"]}"#, &["args[1]"]),
            (r#"{"program": "x", "command": "y"}"#, &["command"]),
            (r#"{"shell": true}"#, &["command"]),
            (r#"{"shell": true, "command": " "}"#, &["command"]),
            (r#"{"shell": true, "command": "x", "program": "y"}"#, &["program"]),
            (r#"{"program": "x", "cwd": "here"}"#, &["cwd"]),
            (r#"{"program": "x", "env": {"PATH": "/tmp"}}"#, &["env.PATH"]),
            (r#"{"program": "x", "env": {"A=B": "1", "1A": "1"}}"#, &["env.1A", "env.A=B"]),
            (r#"{"program": "x", "env": {"A": {"secret": "No Name"}}}"#, &["env.A"]),
            (r#"{"program": "x", "env": {"LD_PRELOAD": {"secret": "a"}}}"#, &["env.LD_PRELOAD"]),
            (r#"{"program": "x", "env": {"A": {"secret": "a", "key": "b"}}}"#, &[""]),
            (
                r#"{"program": "x", "env": {"SCHED_JOB_ID": "1", "TRACEPARENT": "1"}}"#,
                &["env.SCHED_JOB_ID", "env.TRACEPARENT"],
            ),
            (
                r#"{"program": "x", "env_allow": ["DATABASE_URL", "PGPASSWORD"]}"#,
                &["env_allow.DATABASE_URL", "env_allow.PGPASSWORD"],
            ),
            (
                r#"{"program": "x", "env_allow": ["AWS_SECRET_ACCESS_KEY", "SCHED_X"]}"#,
                &["env_allow.AWS_SECRET_ACCESS_KEY", "env_allow.SCHED_X"],
            ),
            (r#"{"program": "x", "grace_seconds": 301}"#, &["grace_seconds"]),
            (r#"{"program": "x", "success_exit_codes": []}"#, &["success_exit_codes"]),
            (r#"{"program": "x", "max_output_bytes": 1}"#, &["max_output_bytes"]),
            (r#"{"cwd": ".", "grace_seconds": 999}"#, &["program", "cwd", "grace_seconds"]),
            (r#"{"program": "x", "umask": 1}"#, &[""]),
            (r#"{"program": ["x"]}"#, &[""]),
            (r#""x""#, &[""]),
        ];
        for (json, expected) in table {
            assert_eq!(fields(json), *expected, "{json}");
        }
    }

    #[test]
    fn an_unknown_field_is_named_with_the_known_ones() {
        let mistakes =
            ProcessConfig::parse(&mut serde_json::Deserializer::from_str(r#"{"progam": "x"}"#)).unwrap_err();
        let text = mistakes[0].to_string();
        assert!(text.contains("`progam`") && text.contains("`program`"), "{text}");
    }

    #[test]
    fn arguments_beyond_what_the_kernel_takes_are_refused() {
        let long = "x".repeat(MAX_ARGUMENT_BYTES);
        let one = format!(r#"{{"program": "x", "args": ["{long}y"]}}"#);
        assert_eq!(fields(&one), ["args[0]"]);
        let many = vec![format!("\"{long}\""); 11].join(",");
        assert_eq!(fields(&format!(r#"{{"program": "x", "args": [{many}]}}"#)), ["args"]);
    }
}
