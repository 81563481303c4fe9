//! Configuration: flags override the environment, which overrides one TOML file, which overrides
//! the defaults.
//!
//! [`load`] merges all sources for a table of [`Setting`]s into [`Values`], which the program reads
//! into its own struct. All mistakes are reported together. Loading writes nothing and opens no
//! connection.
//!
//! One row of the table creates the flag, the variable, the key of the file, the line of
//! `--check-config` and the error text. A deserialiser would stop at the first mistake and lose the
//! origin of a value. An empty environment variable counts as not set: service managers and
//! container files cannot remove a variable.

mod file;
mod flags;
mod groups;
mod parse;
pub mod redact;
mod setting;
mod source;
mod values;

mod field_error;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;

pub use crate::config::field_error::{ConfigError, LoadError, Mistake, Origin};
pub use flags::arguments;
pub use groups::{
    DATABASE, DatabaseSettings, HEALTH, HealthSettings, LOGGING, OPTIONAL_HEALTH, PROCESS, PUBLIC,
    ProcessSettings, PublicSettings, REFUSED, SECRETS, SecretsSettings,
};
pub use setting::{Program, Sensitivity, Setting};
pub use source::{MapSource, ProcessEnvironment, Source};
pub use values::Values;

use values::Row;

/// Names the configuration file if the flag does not.
pub const CONFIG_VARIABLE: &str = "SCHED_CONFIG";

/// Merges all sources for `groups`. `args` starts with the program's name.
///
/// # Errors
/// If the command line or the file cannot be parsed, and for `--help` and `--version`.
pub fn load<A>(
    program: &Program,
    groups: &[&[Setting]],
    args: A,
    source: &dyn Source,
) -> Result<Values, LoadError>
where
    A: IntoIterator,
    A::Item: Into<OsString> + Clone,
{
    let matches = flags::parse(program, groups, args)?;
    resolve(program, groups, &matches, source)
}

/// Like [`load`], for a program with the [`arguments`] in its own command.
///
/// # Errors
/// If the file cannot be parsed.
pub fn resolve(
    program: &Program,
    groups: &[&[Setting]],
    matches: &ArgMatches,
    source: &dyn Source,
) -> Result<Values, LoadError> {
    let settings: Vec<Setting> = groups.iter().flat_map(|group| group.iter().copied()).collect();
    let mut values = Values {
        rows: Vec::with_capacity(settings.len()),
        mistakes: unknown_defaults(program, &settings),
        // The program's command may lack the flag.
        check_requested: matches.try_get_one::<bool>(flags::CHECK).ok().flatten().copied().unwrap_or(false),
    };
    let mut file = file::FileValues::default();
    if let Some((path, origin)) = config_file(matches, source) {
        file = file::read(&path, origin, program, &settings)?;
    }
    values.mistakes.append(&mut file.mistakes);
    for setting in settings {
        let stronger = flag(matches, setting.name)
            .map(|text| (text, Origin::Flag(setting.name)))
            .or_else(|| variable(source, setting.env).map(|text| (text, Origin::Variable(setting.env))));
        let in_file = file.entries.iter().rfind(|entry| entry.setting == setting.name);
        let given = match (stronger, in_file) {
            (Some(given), _) => Some(given),
            (None, Some(entry)) => match &entry.value {
                Ok(text) => Some((text.clone(), entry.origin.clone())),
                Err(fault) => {
                    let text = format!("{} ({}) {fault}", setting.name, entry.origin);
                    values.mistakes.push(Mistake::new(setting.name, text));
                    None
                }
            },
            (None, None) => program.default_of(&setting).map(|text| (text.to_owned(), Origin::Default)),
        };
        if let (Some(why), Some((_, origin))) = (setting.refusal, &given) {
            values.mistakes.push(Mistake::new(setting.name, format!("{} ({origin}) {why}", setting.name)));
        }
        values.rows.push(Row { setting, given });
    }
    Ok(values)
}

fn config_file(matches: &ArgMatches, source: &dyn Source) -> Option<(PathBuf, Origin)> {
    let flag = flag(matches, flags::CONFIG).map(|path| (path.into(), Origin::Flag(flags::CONFIG)));
    flag.or_else(|| {
        variable(source, CONFIG_VARIABLE).map(|path| (path.into(), Origin::Variable(CONFIG_VARIABLE)))
    })
}

fn flag(matches: &ArgMatches, name: &str) -> Option<String> {
    // An error means that the program's command lacks this flag.
    matches.try_get_one::<String>(name).ok().flatten().cloned()
}

fn variable(source: &dyn Source, name: &str) -> Option<String> {
    source.get(name).filter(|text| !text.trim().is_empty())
}

fn unknown_defaults(program: &Program, settings: &[Setting]) -> Vec<Mistake> {
    let known = |name: &str| settings.iter().any(|setting| setting.name == name);
    let unknown = program.defaults.iter().filter(|(name, _)| !known(name));
    let text = "has a default but is not in the table of settings, which is a fault of the program";
    unknown.map(|(name, _)| Mistake::new(*name, format!("{name} {text}"))).collect()
}
