//! The rows of a program's table of settings.
//!
//! A row holds everything about a setting: its names, its default, its help. Flags, the
//! environment, the configuration file and `--check-config` are all derived from it, so they cannot
//! disagree. Rows are constants; nothing here reads anything.

/// How much of a setting's value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sensitivity {
    /// All of it.
    Public,
    /// Everything except the passwords inside a URL.
    SecretUrl,
    /// Nothing.
    Secret,
}

/// One setting: a flag, an environment variable and a key of the configuration file.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The name in kebab-case: the flag, and the key of the file (where `_` may replace `-`).
    pub name: &'static str,
    pub env: &'static str,
    /// The value when none is given. With `None` the setting is required or optional, which its
    /// reader decides.
    pub default: Option<&'static str>,
    /// Placeholder of the value in `--help`, for example `DURATION`.
    pub value_name: &'static str,
    /// The effect of the setting, its unit and the consequences of a wrong value.
    pub help: &'static str,
    pub sensitivity: Sensitivity,
    /// A valid value, shown when the setting is required and missing.
    pub example: Option<&'static str>,
    /// Whether `--help` and `--check-config` omit it.
    pub hidden: bool,
    /// Whether the flag may appear without a value and then means `true`.
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

    /// Sets the value that applies when none is given.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// No output may show the value.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.sensitivity = Sensitivity::Secret;
        self
    }

    /// The value is a URL whose passwords no output may show.
    #[must_use]
    pub const fn secret_url(mut self) -> Self {
        self.sensitivity = Sensitivity::SecretUrl;
        self
    }

    /// Sets an example for the message about a missing setting.
    #[must_use]
    pub const fn example(mut self, example: &'static str) -> Self {
        self.example = Some(example);
        self
    }

    /// Omits it from `--help` and `--check-config`: for values that one program passes to another.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// A boolean that defaults to `false`. The flag without a value means `true`.
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
    pub version: &'static str,
    /// One sentence for `--help`.
    pub about: &'static str,
    /// Defaults of shared settings that differ in this program, as (setting, value).
    pub defaults: &'static [(&'static str, &'static str)],
    /// Threads of the runtime that runs the body; `None` means one per core.
    pub threads: Option<usize>,
}

impl Program {
    /// A program with every shared default unchanged.
    #[must_use]
    pub const fn new(name: &'static str, version: &'static str, about: &'static str) -> Self {
        Self { name, version, about, defaults: &[], threads: None }
    }

    /// Sets other defaults for shared settings, as (setting, value).
    #[must_use]
    pub const fn defaults(mut self, defaults: &'static [(&'static str, &'static str)]) -> Self {
        self.defaults = defaults;
        self
    }

    /// Sets the number of threads for the body. A low number suits a program that does little work
    /// itself, since each message between two threads wakes one.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The program's table in the configuration file: its name without the prefix `sched-`.
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
