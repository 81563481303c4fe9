//! Why an attempt did not start, with its error class.

use std::path::PathBuf;

use sched_model::domain::handler_config::FieldError;

use super::super::MissingSecret;
use super::super::report::ErrorClass;
use super::cgroups::LimitError;
use super::environment::{SAFE_PATH, VariableRefused};
use super::programs::ProgramRefused;
use super::users::RunAsError;

#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("handler_config is not valid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Config(Vec<FieldError>),
    #[error(transparent)]
    Secret(#[from] MissingSecret),
    #[error("program {program:?} was not found in PATH ({SAFE_PATH}) on this worker")]
    NotInPath { program: String },
    #[error("program {program:?} does not exist on this worker")]
    NoSuchProgram { program: String },
    #[error(transparent)]
    Refused(#[from] ProgramRefused),
    #[error(transparent)]
    Variable(#[from] VariableRefused),
    #[error("working directory {cwd:?} is not a directory on this worker")]
    NoSuchDirectory { cwd: String },
    #[error("this worker could not create a process for {program:?}")]
    Shortage { program: String, source: std::io::Error },
    #[error("failed to start {program:?}")]
    Spawn { program: String, source: std::io::Error },
    #[error("failed to start {program:?}: the interpreter named by its first line or its format is missing")]
    NoInterpreter { program: String, source: std::io::Error },
    #[error("failed to create the private directory of the attempt in {root}", root = root.display())]
    Workspace { root: PathBuf, source: std::io::Error },
    #[error(transparent)]
    RunAs(#[from] RunAsError),
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error("the launcher of processes has stopped")]
    LauncherGone,
}

impl StartError {
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::Config(_) => ErrorClass::InvalidConfig,
            Self::Secret(_) => ErrorClass::MissingSecret,
            Self::NotInPath { .. } | Self::NoSuchProgram { .. } => ErrorClass::ProgramNotFound,
            Self::Refused(_) | Self::Variable(_) => ErrorClass::ProgramRefused,
            Self::NoSuchDirectory { .. } | Self::NoInterpreter { .. } | Self::Spawn { .. } => {
                ErrorClass::SpawnFailed
            }
            Self::RunAs(_) => ErrorClass::RunAsUnavailable,
            Self::Limit(LimitError::Unavailable { .. }) => ErrorClass::LimitsUnavailable,
            Self::Shortage { .. }
            | Self::Workspace { .. }
            | Self::Limit(LimitError::Group { .. })
            | Self::LauncherGone => ErrorClass::Worker,
        }
    }
}
