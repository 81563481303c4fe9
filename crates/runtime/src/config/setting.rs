//! A row of a table of settings. Flags, the environment, the configuration file and
//! `--check-config` are derived from it, so they cannot disagree.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sensitivity {
    Public,
    /// Everything except the passwords inside a URL.
    SecretUrl,
    Secret,
}

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// In kebab-case: the flag, and the key of the file (where `_` may replace `-`).
    pub name: &'static str,
    pub env: &'static str,
    /// Without a default, the reader decides whether the setting is required.
    pub default: Option<&'static str>,
    pub value_name: &'static str,
    /// The effect, the unit and the consequences of a wrong value.
    pub help: &'static str,
    pub sensitivity: Sensitivity,
    pub example: Option<&'static str>,
    /// Whether `--help` and `--check-config` omit it.
    pub hidden: bool,
    /// A flag without a value means `true`.
    pub switch: bool,
    /// Why no value is accepted; the text continues the name.
    pub refusal: Option<&'static str>,
}

impl Setting {
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
            refusal: None,
        }
    }

    /// A setting of earlier systems that has no use here. A value is a mistake.
    #[must_use]
    pub const fn refused(name: &'static str, env: &'static str, why: &'static str) -> Self {
        let mut setting = Self::new(name, env, "VALUE", why).hidden();
        setting.refusal = Some(why);
        setting
    }

    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// Hides the value in all output.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.sensitivity = Sensitivity::Secret;
        self
    }

    #[must_use]
    pub const fn secret_url(mut self) -> Self {
        self.sensitivity = Sensitivity::SecretUrl;
        self
    }

    #[must_use]
    pub const fn example(mut self, example: &'static str) -> Self {
        self.example = Some(example);
        self
    }

    /// Omits the setting from `--help` and `--check-config`: for values that one program passes to
    /// another.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// A boolean with the default `false`. The flag without a value means `true`.
    #[must_use]
    pub const fn switch(mut self) -> Self {
        self.switch = true;
        self.default = Some("false");
        self
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    pub version: &'static str,
    pub about: &'static str,
    /// Defaults of shared settings that differ in this program, as (setting, value).
    pub defaults: &'static [(&'static str, &'static str)],
    /// Worker threads of the runtime; `None` means one per core.
    pub threads: Option<usize>,
}

impl Program {
    #[must_use]
    pub const fn new(name: &'static str, version: &'static str, about: &'static str) -> Self {
        Self { name, version, about, defaults: &[], threads: None }
    }

    #[must_use]
    pub const fn defaults(mut self, defaults: &'static [(&'static str, &'static str)]) -> Self {
        self.defaults = defaults;
        self
    }

    /// Sets the number of threads. A low number suits a program with little work of its own, since
    /// each message between two threads wakes one.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Its table in the configuration file: the name without `sched-`.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.name.strip_prefix("sched-").unwrap_or(self.name)
    }

    pub fn default_of(&self, setting: &Setting) -> Option<&'static str> {
        let own = self.defaults.iter().find(|(name, _)| *name == setting.name).map(|(_, value)| *value);
        own.or(setting.default)
    }
}
