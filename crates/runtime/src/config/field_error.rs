//! Configuration errors.
//!
//! Every text names the setting, the origin of the value and the allowed values. It shows a value
//! only as far as its setting permits. The types hold finished texts, which the neighbouring
//! modules create.

use std::fmt;
use std::path::PathBuf;

use crate::exit::{self, ExitStatus};

/// Where a value came from, strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag(&'static str),
    Variable(&'static str),
    /// A line of the configuration file.
    File {
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key as it is written there, with its table.
        key: String,
    },
    /// The table of settings.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The setting, or the unknown key of the file.
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

/// All mistakes of a configuration, at least one.
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

/// Why the configuration could not be loaded, or need not be.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The user requested `--help` or `--version`. The text belongs on standard output, and nothing
    /// is wrong.
    #[error("{text}")]
    Answered {
        /// The help or version text.
        text: String,
    },
    /// The command line cannot be parsed; the text explains it in several lines.
    #[error("{text}")]
    Usage {
        /// The explanation, with every URL redacted.
        text: String,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {} (named by {origin})", path.display())]
    Unreadable {
        path: PathBuf,
        /// The origin of the path.
        origin: Origin,
        #[source]
        source: std::io::Error,
    },
    /// The configuration file is not TOML.
    #[error("{}:{line}: not valid TOML: {message}", path.display())]
    Syntax {
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser expected.
        message: String,
    },
}

impl ExitStatus for LoadError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Answered { .. } => exit::OK,
            Self::Usage { .. } | Self::Unreadable { .. } | Self::Syntax { .. } => exit::USAGE,
        }
    }
}
