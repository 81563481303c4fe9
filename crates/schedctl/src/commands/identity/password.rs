//! Reads a new password from a private file, standard input, or the terminal (typed twice).

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use sched_model::domain::identity::{check_password, hash_password};
use sched_runtime::exit::ExitError;
use sched_runtime::private_file;
use secrecy::{ExposeSecret as _, SecretString};

use crate::commands::definitions::secrets::{prompt, text, without_line_end};
use crate::failure::{failure, usage};

#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// File with the password, readable only by its owner; default: standard input, or a prompt
    #[arg(long, value_name = "FILE", conflicts_with = "no_password")]
    password_file: Option<PathBuf>,
    /// Create the user without a password, for other sign-in methods
    #[arg(long)]
    no_password: bool,
}

impl PasswordArgs {
    /// `None` for a user without a password.
    pub(super) async fn read(&self, email: &str) -> Result<Option<SecretString>, ExitError> {
        if self.no_password {
            return Ok(None);
        }
        read(self.password_file.as_deref(), email).await.map(Some)
    }
}

pub(super) async fn read(file: Option<&Path>, email: &str) -> Result<SecretString, ExitError> {
    let password = match file {
        Some(path) => without_line_end(private_file::read(path).map_err(usage)?),
        None if io::stdin().is_terminal() => {
            let first = prompt(&format!("Password of {email} (not shown): ")).await?;
            let again = prompt("Repeat the password: ").await?;
            if first.expose_secret() != again.expose_secret() {
                return Err(usage(anyhow!("the two passwords differ; nothing was changed")));
            }
            first
        }
        None => without_line_end(text(io::stdin(), "standard input")?),
    };
    check_password(&password).map_err(|what| usage(anyhow!("the password {what}")))?;
    Ok(password)
}

pub(super) fn hash(password: &SecretString) -> Result<String, ExitError> {
    hash_password(password, rand::random()).map_err(failure)
}
