//! The command line, built from the table of settings.
//!
//! Flags take text, so that the typed readers report a wrong flag with all other mistakes. The
//! environment is not read here: clap would hide the origin of a value.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::redact;
use super::setting::{Program, Setting};
use crate::config::field_error::LoadError;

pub(crate) const CONFIG: &str = "config";
pub(crate) const CHECK: &str = "check-config";

#[must_use]
pub fn arguments(program: &Program, groups: &[&[Setting]]) -> Vec<Arg> {
    let file = Arg::new(CONFIG).long(CONFIG).value_name("FILE").help(format!(
        "TOML file with settings, flat or in the table [{}]; flags and variables are stronger [env: {}]",
        program.table(),
        super::CONFIG_VARIABLE,
    ));
    let settings = groups.iter().flat_map(|group| group.iter());
    std::iter::once(file).chain(settings.map(|setting| argument(program, setting))).collect()
}

fn argument(program: &Program, setting: &Setting) -> Arg {
    let mut help = format!("{} [env: {}]", setting.help, setting.env);
    if let Some(default) = program.default_of(setting) {
        help.push_str(&format!(" [default: {}]", redact::value(default, setting.sensitivity)));
    }
    let argument = Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.value_name)
        .help(help)
        .hide(setting.hidden)
        // The reader rejects a negative number with the name of its flag.
        .allow_negative_numbers(true);
    if setting.switch {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
    }
}

/// Parses a daemon's command line; `args` starts with the program's name.
pub(crate) fn parse<A>(program: &Program, groups: &[&[Setting]], args: A) -> Result<ArgMatches, LoadError>
where
    A: IntoIterator,
    A::Item: Into<OsString> + Clone,
{
    let check = Arg::new(CHECK)
        .long(CHECK)
        .action(ArgAction::SetTrue)
        .help("Print every setting, its value and where it came from, with secrets redacted, and exit");
    let command = Command::new(program.name)
        .version(program.version)
        .about(program.about)
        .args(arguments(program, groups))
        .arg(check);
    command.try_get_matches_from(args).map_err(|error| {
        let text = error.render().to_string();
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => LoadError::Answered { text },
            _ => LoadError::Usage { text: redact::free_text(text.trim_start_matches("error: ").trim_end()) },
        }
    })
}
