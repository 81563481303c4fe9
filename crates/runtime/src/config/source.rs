//! Sources of environment variables: the process's environment, or a map in tests.

use std::collections::BTreeMap;
use std::fmt;

pub trait Source: fmt::Debug {
    fn get(&self, name: &str) -> Option<String>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Source for ProcessEnvironment {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        // The setting's reader rejects a value that is not UTF-8, with the setting's name.
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
