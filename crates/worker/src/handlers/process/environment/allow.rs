//! The variables that functions may inherit: the operator's list (`WORKER_ENV_ALLOW`).
//!
//! Whether or not there is a list, `sched_model::domain::handler_config` refuses the worker's own
//! settings and names that look like secrets.

use std::collections::BTreeSet;
use std::fmt;

use sched_model::domain::handler_config::inheritance_refusal;

/// All variables that are not refused, or those of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvAllowList(Option<BTreeSet<String>>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} {reason}")]
pub struct EnvAllowListError {
    name: String,
    reason: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the function inherits the variable {name:?} (env_allow), which is not in WORKER_ENV_ALLOW of this worker \
     ({permitted}); set a value in env, or ask the operator to add the name"
)]
pub(in super::super) struct VariableRefused {
    name: String,
    permitted: String,
}

impl EnvAllowList {
    /// An empty list permits all names that are not refused.
    ///
    /// # Errors
    /// The first name that no function may inherit.
    pub fn parse<T: AsRef<str>>(names: &[T]) -> Result<Self, EnvAllowListError> {
        let names: BTreeSet<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        for name in &names {
            if let Some(reason) = inheritance_refusal(name) {
                return Err(EnvAllowListError { name: name.clone(), reason });
            }
        }
        Ok(Self(Some(names).filter(|names| !names.is_empty())))
    }

    /// Returns an error for the first name that is not permitted.
    pub(in super::super) fn check(&self, inherited: &BTreeSet<String>) -> Result<(), VariableRefused> {
        let Some(permitted) = &self.0 else { return Ok(()) };
        match inherited.difference(permitted).next() {
            Some(name) => Err(VariableRefused { name: name.clone(), permitted: self.to_string() }),
            None => Ok(()),
        }
    }
}

/// In the format of the setting.
impl fmt::Display for EnvAllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.0.iter().flatten().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_has_names_that_jobs_may_inherit() {
        let list = EnvAllowList::parse(&["TZ", "HOME", "TZ"]).unwrap();
        assert_eq!(list.to_string(), "HOME,TZ");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert!(list.check(&names(&["TZ"])).is_ok() && list.check(&names(&[])).is_ok());
        assert!(list.check(&names(&["HOME", "PGHOST"])).unwrap_err().to_string().contains("\"PGHOST\""));
        assert!(EnvAllowList::parse::<&str>(&[]).unwrap().check(&names(&["PGHOST"])).is_ok());
        for refused in ["WORKER_SMTP_URL", "REDIS_URL", "PATH", "a b"] {
            let error = EnvAllowList::parse(&["TZ", refused]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{refused:?} is ")) || error.contains("looks like"),
                "{error}"
            );
        }
    }
}
