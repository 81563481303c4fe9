//! The values of the secrets that an attempt names, while it runs.

use std::collections::BTreeMap;

use sched_model::domain::handler_config::TextOrSecret;
use secrecy::{ExposeSecret, SecretString};

/// `Debug` shows names only.
#[derive(Debug, Clone, Default)]
pub struct Secrets(BTreeMap<String, SecretString>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("secret {name:?} does not exist; create it with `schedctl secrets set`")]
pub struct MissingSecret {
    pub name: String,
}

impl Secrets {
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SecretString> {
        self.0.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &SecretString)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.values().map(|value| value.expose_secret().len()).sum()
    }

    pub fn resolve<'a>(&'a self, value: &'a TextOrSecret) -> Result<&'a str, MissingSecret> {
        match value {
            TextOrSecret::Text(text) => Ok(text),
            TextOrSecret::Secret(name) => self
                .0
                .get(&name.secret)
                .map(ExposeSecret::expose_secret)
                .ok_or_else(|| MissingSecret { name: name.secret.clone() }),
        }
    }
}

impl FromIterator<(String, SecretString)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, SecretString)>>(secrets: I) -> Self {
        Self(secrets.into_iter().collect())
    }
}
