//! What is wrong with a configuration, worded for the person who wrote it.
//!
//! Every text names the setting, where the value came from and what is allowed, and shows a value only as far as its
//! setting permits. The types hold finished texts; they are made in the neighbouring modules.

use std::fmt;
use std::path::PathBuf;

use crate::exit::{self, ExitStatus};

/// Where a value came from, strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The flag of this name.
    Flag(&'static str),
    /// The environment variable of this name.
    Variable(&'static str),
    /// A line of the configuration file.
    File {
        /// The file.
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
    /// The setting, or the key of the file that is none.
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
    /// In the order they were found.
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

/// Why no configuration could be put together at all, or need not be.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// `--help` or `--version` was asked for; the text belongs on standard output and nothing is wrong.
    #[error("{text}")]
    Answered {
        /// What was asked for.
        text: String,
    },
    /// The command line cannot be understood; the text explains it in several lines.
    #[error("{text}")]
    Usage {
        /// The explanation, with every URL redacted.
        text: String,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {} (named by {origin})", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Who named it.
        origin: Origin,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The configuration file is not TOML.
    #[error("{}:{line}: not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
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
