//! Configuration errors: each names the setting, the origin and the allowed values. It shows a
//! value only as far as its setting permits.

use std::fmt;
use std::path::PathBuf;

use crate::exit::{self, ExitStatus};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag(&'static str),
    Variable(&'static str),
    /// A line of the configuration file.
    File {
        path: PathBuf,
        line: usize,
        /// The key with its table, as in the file.
        key: String,
    },
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag --{name}"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File { path, line, key } => write!(f, "{}:{line}, key {key}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub setting: String,
    text: String,
}

impl Mistake {
    pub(crate) fn new(setting: impl Into<String>, text: impl Into<String>) -> Self {
        Self { setting: setting.into(), text: text.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Debug, thiserror::Error)]
pub struct ConfigError {
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid configuration:")?;
        self.mistakes.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

impl ExitStatus for ConfigError {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

/// The reason why no configuration was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The user requested `--help` or `--version`; the text belongs on standard output.
    #[error("{text}")]
    Answered { text: String },
    /// The command line cannot be parsed. Every URL in the text is redacted.
    #[error("{text}")]
    Usage { text: String },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {} (named by {origin})", path.display())]
    Unreadable {
        path: PathBuf,
        origin: Origin,
        #[source]
        source: std::io::Error,
    },
    #[error("{}:{line}: not valid TOML: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, message: String },
}

impl ExitStatus for LoadError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Answered { .. } => exit::OK,
            Self::Usage { .. } | Self::Unreadable { .. } | Self::Syntax { .. } => exit::USAGE,
        }
    }
}
