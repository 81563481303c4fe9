//! The values of a configuration and their typed readers.
//!
//! A reader records a mistake and returns a placeholder, so that [`Values::finish`] reports all
//! mistakes at once. No value may be used before `finish` returned `Ok`. An unknown name is a bug
//! of the program, recorded like a mistake.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

use super::parse;
use super::redact;
use super::setting::Setting;
use crate::config::field_error::{ConfigError, Mistake, Origin};

pub(crate) struct Row {
    pub(crate) setting: Setting,
    pub(crate) given: Option<(String, Origin)>,
}

/// The merged values of a configuration. [`load`](super::load) creates it, [`finish`](Self::finish)
/// ends it.
#[must_use = "mistakes are only reported by finish()"]
pub struct Values {
    pub(crate) rows: Vec<Row>,
    pub(crate) mistakes: Vec<Mistake>,
    pub(crate) check_requested: bool,
}

impl fmt::Debug for Values {
    /// Omits the values, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("mistakes", &self.mistakes).finish_non_exhaustive()
    }
}

impl Values {
    pub fn string(&mut self, name: &str) -> String {
        self.required(name, parse::text).unwrap_or_default()
    }

    pub fn optional_string(&mut self, name: &str) -> Option<String> {
        self.read(name, parse::text)
    }

    pub fn secret(&mut self, name: &str) -> SecretString {
        self.string(name).into()
    }

    pub fn optional_secret(&mut self, name: &str) -> Option<SecretString> {
        self.optional_string(name).map(Into::into)
    }

    /// A required positive duration with its unit: `10s`, `5min`.
    pub fn duration(&mut self, name: &str) -> Duration {
        self.duration_within(name, Duration::from_nanos(1)..=parse::LONGEST)
    }

    pub fn duration_within(&mut self, name: &str, allowed: RangeInclusive<Duration>) -> Duration {
        let placeholder = Duration::from_secs(1);
        self.required(name, |text| parse::duration(text, &allowed)).unwrap_or(placeholder)
    }

    pub fn optional_duration(&mut self, name: &str) -> Option<Duration> {
        self.read(name, |text| parse::duration(text, &(Duration::from_nanos(1)..=parse::LONGEST)))
    }

    pub fn integer<T: FromStr + PartialOrd + Display + Copy>(
        &mut self,
        name: &str,
        allowed: RangeInclusive<T>,
    ) -> T {
        self.required(name, |text| parse::integer(text, &allowed)).unwrap_or(*allowed.start())
    }

    pub fn optional_integer<T: FromStr + PartialOrd + Display + Copy>(
        &mut self,
        name: &str,
        allowed: RangeInclusive<T>,
    ) -> Option<T> {
        self.read(name, |text| parse::integer(text, &allowed))
    }

    pub fn boolean(&mut self, name: &str) -> bool {
        self.required(name, parse::boolean).unwrap_or_default()
    }

    pub fn list(&mut self, name: &str) -> Vec<String> {
        self.required(name, parse::list).unwrap_or_default()
    }

    /// A list; a missing one is empty.
    pub fn optional_list(&mut self, name: &str) -> Vec<String> {
        self.read(name, parse::list).unwrap_or_default()
    }

    /// A required word from `allowed`, all of which must parse as `T`. The placeholder is `T`'s
    /// default.
    pub fn choice<T: FromStr + Default>(&mut self, name: &str, allowed: &[&str]) -> T {
        self.required(name, |text| parse::choice(text, allowed)).unwrap_or_default()
    }

    pub fn optional_choice<T: FromStr>(&mut self, name: &str, allowed: &[&str]) -> Option<T> {
        self.read(name, |text| parse::choice(text, allowed))
    }

    /// A required IP address; `localhost` means 127.0.0.1.
    pub fn ip(&mut self, name: &str) -> IpAddr {
        self.required(name, parse::ip).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    pub fn optional_ip(&mut self, name: &str) -> Option<IpAddr> {
        self.read(name, parse::ip)
    }

    pub fn host(&mut self, name: &str) -> String {
        self.required(name, parse::host).unwrap_or_default()
    }

    /// Records a mistake in the value of `name`, for checks across settings. `text` continues the
    /// value: "must be below …".
    pub fn mistake(&mut self, name: &str, text: impl Display) {
        let text = match self.row(name).and_then(|row| row.given.as_ref().map(|given| (row.setting, given))) {
            Some((setting, (value, origin))) => {
                format!("{name} = {:?} ({origin}) {text}", redact::value(value, setting.sensitivity))
            }
            None => format!("{name} {text}"),
        };
        self.mistakes.push(Mistake::new(name, text));
    }

    /// Whether none of `names` has a mistake, so that a check across them is meaningful.
    #[must_use]
    pub fn are_sound(&self, names: &[&str]) -> bool {
        !self.mistakes.iter().any(|mistake| names.contains(&mistake.setting.as_str()))
    }

    /// Whether `--check-config` was given: print [`effective`](Self::effective) instead of
    /// starting.
    #[must_use]
    pub fn check_requested(&self) -> bool {
        self.check_requested
    }

    /// Every visible setting with its value and origin, secrets redacted, as a TOML file.
    #[must_use]
    pub fn effective(&self) -> String {
        let shown = self.rows.iter().filter(|row| !row.setting.hidden);
        shown.map(|row| format!("{}\n", effective_line(row))).collect()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// With every recorded mistake.
    pub fn finish(self) -> Result<(), ConfigError> {
        if self.mistakes.is_empty() { Ok(()) } else { Err(ConfigError { mistakes: self.mistakes }) }
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.setting.name == name)
    }

    fn read<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let Some(row) = self.row(name) else {
            self.mistake(name, "is read but not in the table of settings, which is a fault of the program");
            return None;
        };
        let (value, _) = row.given.as_ref()?;
        match parse(value.trim()) {
            Ok(value) => Some(value),
            Err(text) => {
                self.mistake(name, text);
                None
            }
        }
    }

    fn required<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let missing = self.row(name).filter(|row| row.given.is_none()).map(|row| row.setting);
        // A wrong type in the file is recorded already.
        if let Some(setting) = missing.filter(|_| self.are_sound(&[name])) {
            let example = setting.example.map(|text| format!(", for example {text}")).unwrap_or_default();
            let env = setting.env;
            let text =
                format!("is required: give flag --{name}, variable {env} or key {name} in the file{example}");
            self.mistake(name, text);
        }
        self.read(name, parse)
    }
}

fn effective_line(row: &Row) -> String {
    let name = row.setting.name;
    match &row.given {
        Some((value, origin)) => {
            // JSON strings are valid TOML.
            let value = serde_json::Value::from(redact::value(value, row.setting.sensitivity));
            format!("{name} = {value} # {origin}")
        }
        None => format!("# {name} is not set"),
    }
}
