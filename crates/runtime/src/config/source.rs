//! Sources of environment variables.
//!
//! Programs read the process's environment, tests read a map, and no other code reads variables.
//! Both are read-only and have no mutable state.

use std::collections::BTreeMap;
use std::fmt;

/// A set of named texts.
pub trait Source: fmt::Debug {
    /// The text called `name`, if there is one.
    fn get(&self, name: &str) -> Option<String>;
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Source for ProcessEnvironment {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        // A value that is not UTF-8 keeps its readable part. The setting's reader then rejects it
        // by name, which is more useful to the operator than a general encoding error.
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }
}

/// A fixed map, for tests and for callers that already hold the values.
#[derive(Debug, Clone, Default)]
pub struct MapSource(BTreeMap<String, String>);

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for MapSource {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Source for MapSource {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}
