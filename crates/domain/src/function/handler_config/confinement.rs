//! The user and the limits of a `process` function: memory, processor time and processes.
//!
//! A worker whose machine cannot enforce them rejects the attempt at its start.

use serde::{Deserialize, Serialize};

use super::Mistakes;

/// A program does not load with less.
const MIN_MEMORY_BYTES: u64 = 4 * 1024 * 1024;
/// The kernel accepts no quota below one millisecond per 100 ms.
const CPU_PERCENT: std::ops::RangeInclusive<u32> = 1..=100_000;
/// The kernel's own bound of process numbers.
const PIDS: std::ops::RangeInclusive<u32> = 1..=4_194_304;
const LONGEST_NAME: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAs {
    pub user: String,
    /// Name or number of its only group; the user's own group when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimits {
    /// In bytes. The kernel kills an attempt that needs more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// In percent of one processor. The kernel slows down an attempt that needs more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
    /// Processes and threads at once. The kernel rejects more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
}

impl RunAs {
    pub(super) fn check(&self, mistakes: &mut Mistakes) {
        check_name("run_as.user", &self.user, mistakes);
        if let Some(group) = &self.group {
            check_name("run_as.group", group, mistakes);
        }
    }
}

fn check_name(field: &str, name: &str, mistakes: &mut Mistakes) {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
    if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with('-') || !name.chars().all(is_fit) {
        mistakes.add(field, "is neither a name nor a number");
    }
}

impl ResourceLimits {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(&self, mistakes: &mut Mistakes) {
        if self.memory_bytes.is_some_and(|bytes| bytes < MIN_MEMORY_BYTES || i64::try_from(bytes).is_err()) {
            mistakes.add("limits.memory_bytes", format!("must be at least {MIN_MEMORY_BYTES}"));
        }
        for (field, value, range) in
            [("limits.cpu_percent", self.cpu_percent, CPU_PERCENT), ("limits.pids", self.pids, PIDS)]
        {
            if value.is_some_and(|value| !range.contains(&value)) {
                mistakes.add(field, format!("must be {} to {}", range.start(), range.end()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProcessConfig;
    use super::*;

    fn mistakes(rest: &str) -> Vec<String> {
        let json = format!(r#"{{"program": "x", {rest}}}"#);
        match ProcessConfig::parse(&mut serde_json::Deserializer::from_str(&json)) {
            Ok(_) => Vec::new(),
            Err(mistakes) => mistakes.into_iter().map(|mistake| mistake.field).collect(),
        }
    }

    #[test]
    fn users_and_limits_are_validated_per_field() {
        let table: &[(&str, &[&str])] = &[
            (r#""run_as": {"user": "nobody"}, "limits": {}"#, &[]),
            (r#""run_as": {"user": "1000", "group": "www-data"}, "no_new_privs": false"#, &[]),
            (r#""limits": {"memory_bytes": 4194304, "cpu_percent": 250, "pids": 1}"#, &[]),
            (r#""run_as": {"user": ""}"#, &["run_as.user"]),
            (r#""run_as": {"user": "a:b", "group": "-x"}"#, &["run_as.user", "run_as.group"]),
            (r#""run_as": {"group": "x"}"#, &[""]),
            (r#""limits": {"memory_bytes": 4096}"#, &["limits.memory_bytes"]),
            (r#""limits": {"memory_bytes": 18446744073709551615}"#, &["limits.memory_bytes"]),
            (r#""limits": {"cpu_percent": 0, "pids": 0}"#, &["limits.cpu_percent", "limits.pids"]),
            (r#""limits": {"memory": "1G"}"#, &[""]),
        ];
        for (rest, expected) in table {
            assert_eq!(mistakes(rest), *expected, "{rest}");
        }
        assert!(ResourceLimits::default().is_empty());
    }

    #[test]
    fn new_privileges_require_an_explicit_setting() {
        let config: ProcessConfig = serde_json::from_str(r#"{"program": "x"}"#).unwrap();
        assert!(config.no_new_privs && config.run_as.is_none() && config.limits.is_none());
    }
}
