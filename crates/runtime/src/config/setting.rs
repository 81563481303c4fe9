//! The rows of a program's table of settings.
//!
//! A row says everything that is written about a setting: its names, its default, its help. Flags, the environment, the
//! configuration file and `--check-config` are all made from it, so they cannot disagree. Rows are constants; nothing
//! here reads anything.

/// What may be shown of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sensitivity {
    /// All of it.
    Public,
    /// Everything but the passwords inside a URL.
    SecretUrl,
    /// Nothing.
    Secret,
}

/// One setting: a flag, an environment variable and a key of the configuration file.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The name in kebab-case: the flag, and the key of the file (where `_` may stand for `-`).
    pub name: &'static str,
    /// The environment variable.
    pub env: &'static str,
    /// What applies when nothing is said; `None` means that the setting is required or optional, as its reader says.
    pub default: Option<&'static str>,
    /// How `--help` names the value, for example `DURATION`.
    pub value_name: &'static str,
    /// What the setting does, its unit and what a wrong value breaks.
    pub help: &'static str,
    /// What may be shown of the value.
    pub sensitivity: Sensitivity,
    /// A valid value, shown when the setting is required and missing.
    pub example: Option<&'static str>,
    /// Whether `--help` and `--check-config` keep quiet about it.
    pub hidden: bool,
    /// Whether the flag may stand alone and then means `true`.
    pub switch: bool,
}

impl Setting {
    /// A visible public setting that takes one value and has no default.
    #[must_use]
    pub const fn new(
        name: &'static str,
        env: &'static str,
        value_name: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            env,
            default: None,
            value_name,
            help,
            sensitivity: Sensitivity::Public,
            example: None,
            hidden: false,
            switch: false,
        }
    }

    /// With a value that applies when nothing is said.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// With a value no output may show.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.sensitivity = Sensitivity::Secret;
        self
    }

    /// With a URL whose passwords no output may show.
    #[must_use]
    pub const fn secret_url(mut self) -> Self {
        self.sensitivity = Sensitivity::SecretUrl;
        self
    }

    /// With an example for the message that says the setting is missing.
    #[must_use]
    pub const fn example(mut self, example: &'static str) -> Self {
        self.example = Some(example);
        self
    }

    /// Left out of `--help` and `--check-config`: for what one of our programs tells another.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// A boolean that defaults to `false` and whose bare flag means `true`.
    #[must_use]
    pub const fn switch(mut self) -> Self {
        self.switch = true;
        self.default = Some("false");
        self
    }
}

/// The program a configuration is read for.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The binary's name, for example `sched-worker`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// One sentence for `--help`.
    pub about: &'static str,
    /// Defaults of shared settings that differ in this program, as (setting, value).
    pub defaults: &'static [(&'static str, &'static str)],
    /// Threads of the runtime that its body runs on; one per core if `None`.
    pub threads: Option<usize>,
}

impl Program {
    /// A program that takes every shared default as it is.
    #[must_use]
    pub const fn new(name: &'static str, version: &'static str, about: &'static str) -> Self {
        Self { name, version, about, defaults: &[], threads: None }
    }

    /// With other defaults for shared settings, as (setting, value).
    #[must_use]
    pub const fn defaults(mut self, defaults: &'static [(&'static str, &'static str)]) -> Self {
        self.defaults = defaults;
        self
    }

    /// With so many threads for its body: few where the work is done elsewhere, since each message between two threads wakes one.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The program's table in the configuration file: its name without the `sched-` of the binaries.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.name.strip_prefix("sched-").unwrap_or(self.name)
    }

    /// The setting's default in this program.
    pub fn default_of(&self, setting: &Setting) -> Option<&'static str> {
        let own = self.defaults.iter().find(|(name, _)| *name == setting.name).map(|(_, value)| *value);
        own.or(setting.default)
    }
}
