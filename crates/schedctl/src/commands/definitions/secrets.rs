//! `secrets`: setting, listing and deleting them, and making and rotating the keys they are encrypted with.
//!
//! A value comes from a file, from standard input or from the terminal, never from the command line, which every user of the
//! machine can read. It is printed nowhere. At the terminal it is not shown while it is typed; the terminal is as before again
//! however the question ends, by Ctrl-C too. `keygen` needs no API: keys never travel.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use sched_model::domain::secret::{KEY_BYTES, MAX_SECRET_BYTES, key_line};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{DeleteSecretQuery, PageQuery, Secret, SecretQuery, SecretSpec, SecretsRotated};
use secrecy::{ExposeSecret as _, SecretString};

use crate::commands::{Session, tell_of_more};
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Column, or_dash, tell, time};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Give a secret its value, a new one or over the old: from --from-file, from standard input, or typed without being shown
    ///
    /// From standard input and the terminal one line end at the end is taken off; a file is taken as it is. Attempts that start
    /// afterwards have the new value.
    Set(SetArgs),
    /// List secrets, without their values, which nobody is shown
    List {
        /// Most secrets to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one secret, without its value
    #[command(visible_alias = "show")]
    Get {
        /// Its name
        name: String,
        /// The project whose secret it is; that of the whole tenant without it
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
    },
    /// Delete a secret that no function names
    Delete {
        /// Its name
        name: String,
        /// That of this project; without it that of the whole tenant
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Delete it even if functions name it: their attempts fail until it is set again
        #[arg(long)]
        force: bool,
    },
    /// Make a new key, for the key file of the API and the workers; needs no API
    ///
    /// Without --file its line is printed. A file that exists gets it as its last line, which reads but does not write yet: see
    /// `docs/secrets.md` for the steps of a rotation.
    Keygen {
        /// File to write it to; made for the owner's eyes only where it is missing
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Encrypt all secrets with the key that writes, the first of the API's key file; exit code 1 if some cannot be opened
    Rotate,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Its name
    name: String,
    /// Only for jobs of this project, and before that of the whole tenant; without it for all
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// File whose content, as it is, is the value
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
}

const LIST: &[Column<Secret>] = &[
    Column::new("NAME", |secret| secret.name.clone()),
    Column::new("PROJECT", |secret| or_dash(secret.project.as_deref())),
    Column::new("VERSION", |secret| secret.version.to_string()),
    Column::new("KEY", |secret| secret.key.clone()),
    Column::new("UPDATED", |secret| time(secret.updated_at)),
    Column::wide("BY", |secret| secret.updated_by.clone()),
    Column::wide("CREATED", |secret| time(secret.created_at)),
    Column::wide("ID", |secret| secret.id.to_string()),
];

const GET: &[Column<Secret>] = &[
    Column::new("Name", |secret| secret.name.clone()),
    Column::new("Project", |secret| or_dash(secret.project.as_deref())),
    Column::new("Version", |secret| secret.version.to_string()),
    Column::new("Key", |secret| secret.key.clone()),
    Column::new("Updated", |secret| format!("{} by {}", time(secret.updated_at), secret.updated_by)),
];

const ROTATED: &[Column<SecretsRotated>] = &[
    Column::new("Key", |rotated| rotated.key.clone()),
    Column::new("Rotated", |rotated| rotated.rotated.to_string()),
    Column::new("Unreadable", |rotated| {
        let each = rotated.unreadable.iter().map(|secret| format!("{}: {}", secret.name, secret.reason));
        or_dash(Some(each.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty()))
    }),
];

pub(crate) async fn run(command: SecretsCommand, session: &Session) -> CommandResult {
    match command {
        SecretsCommand::Set(args) => set(args, session).await?,
        SecretsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let secrets = session.api()?.list(&["secrets"], limit, query).await?;
            session.output.page(&secrets, LIST, "there are no secrets")?;
            tell_of_more(&secrets, limit);
        }
        SecretsCommand::Get { name, project } => {
            let secret: Secret = session.api()?.get(&["secrets", &name], &SecretQuery { project }).await?;
            session.output.whole(&secret, LIST)?;
        }
        SecretsCommand::Delete { name, project, force } => {
            session.api()?.delete(&["secrets", &name], &DeleteSecretQuery { project, force }).await?;
            tell("deleted");
        }
        SecretsCommand::Keygen { file } => keygen(file.as_deref(), session)?,
        SecretsCommand::Rotate => {
            let rotated: SecretsRotated =
                session.api()?.post(&["secret-keys", "rotate"], None, &serde_json::json!({})).await?;
            session.output.record(&rotated, ROTATED)?;
            if !rotated.unreadable.is_empty() {
                return Ok(exit::FAILURE);
            }
        }
    }
    Ok(exit::OK)
}

async fn set(args: SetArgs, session: &Session) -> Result<(), ExitError> {
    let api = session.api()?;
    let value = match &args.from_file {
        Some(path) => from_file(path)?,
        None if io::stdin().is_terminal() => ask(&format!("Value of {} (not shown): ", args.name)).await?,
        None => without_line_end(text(io::stdin(), "standard input")?),
    };
    let spec = SecretSpec { value: value.expose_secret().to_owned() };
    let query = SecretQuery { project: args.project };
    let secret: Secret = api.put(&["secrets", &args.name], &query, &spec).await?;
    session.output.record(&secret, GET)
}

fn from_file(path: &Path) -> Result<SecretString, ExitError> {
    let name = path.display().to_string();
    let unreadable = |error| usage(anyhow::Error::new(error).context(format!("{name}: could not be read")));
    text(File::open(path).map_err(unreadable)?, &name)
}

/// All of a file, which the API would refuse if it were longer.
pub(crate) fn text(from: impl Read, name: &str) -> Result<SecretString, ExitError> {
    let longest = MAX_SECRET_BYTES as u64;
    let mut bytes = Vec::new();
    // One line end more, which may be taken off.
    let read = from.take(longest + 3).read_to_end(&mut bytes);
    read.map_err(|error| usage(anyhow::Error::new(error).context(format!("{name}: could not be read"))))?;
    // What is not text is not repeated in the message.
    let text = String::from_utf8(bytes).map_err(|_holds_the_value| {
        usage(anyhow!("{name}: is not UTF-8; encode it, for example in base64"))
    })?;
    Ok(text.into())
}

pub(crate) fn without_line_end(text: SecretString) -> SecretString {
    let value = text.expose_secret();
    let Some(shorter) = value.strip_suffix('\n') else { return text };
    shorter.strip_suffix('\r').unwrap_or(shorter).to_owned().into()
}

/// The terminal as it was, once this is dropped.
struct Unshown(Termios);

impl Unshown {
    fn begin() -> nix::Result<Self> {
        let before = tcgetattr(io::stdin().as_fd())?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        quiet.local_flags.insert(LocalFlags::ECHONL);
        tcsetattr(io::stdin().as_fd(), SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Unshown {
    fn drop(&mut self) {
        // The terminal may be gone; then nobody misses its settings.
        let _ = tcsetattr(io::stdin().as_fd(), SetArg::TCSAFLUSH, &self.0);
    }
}

/// Asks for a value at the terminal, which is not shown.
pub(crate) async fn ask(question: &str) -> Result<SecretString, ExitError> {
    let mut terminal = io::stderr();
    write!(terminal, "{question}").and_then(|()| terminal.flush()).map_err(failure)?;
    let _unshown = Unshown::begin().map_err(failure)?;
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_length| SecretString::from(line))
    });
    // Without this, Ctrl-C would end the process with the terminal as it is.
    tokio::select! {
        line = read => Ok(without_line_end(line.map_err(failure)?.map_err(failure)?)),
        _ = tokio::signal::ctrl_c() => Err(failure(anyhow!("nothing was set"))),
    }
}

/// The line of a new key, whose id begins with `prefix`.
pub(crate) fn new_key(prefix: &str) -> SecretString {
    let bytes: [u8; KEY_BYTES] = rand::random();
    key_line(&format!("{prefix}-{:08x}", rand::random::<u32>()), &bytes)
}

fn keygen(file: Option<&Path>, session: &Session) -> Result<(), ExitError> {
    let line = new_key("k");
    let Some(path) = file else { return session.output.print(line.expose_secret()) };
    let id = line.expose_secret().split(' ').next().unwrap_or_default().to_owned();
    let is_new = !path.exists();
    append(path, &line).map_err(|error| {
        usage(anyhow::Error::new(error).context(format!("could not write {}", path.display())))
    })?;
    if is_new {
        tell(&format!(
            "made {} with key {id}; keep a copy apart from the database's backups",
            path.display()
        ));
    } else {
        tell(&format!(
            "added key {id} to {}; restart the API and the workers, then make its line the first and restart the API, then run \
             `schedctl secrets rotate`",
            path.display()
        ));
    }
    Ok(())
}

/// Adds a line to a file, which is made where it is missing.
fn append(path: &Path, line: &SecretString) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).read(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other("it is open to others; take their rights away: chmod 600"));
    }
    let mut before = String::new();
    file.read_to_string(&mut before)?;
    let separator = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let text = SecretString::from(format!("{separator}{}", line.expose_secret()));
    file.write_all(text.expose_secret().as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use sched_model::domain::secret::SecretKeys;

    use super::*;

    #[test]
    fn one_line_end_is_taken_off_and_no_more() {
        for (given, expected) in [
            ("x", "x"),
            ("x\n", "x"),
            ("x\r\n", "x"),
            ("x\n\n", "x\n"),
            (" x \n", " x "),
            ("", ""),
            ("\n", ""),
        ] {
            assert_eq!(without_line_end(given.to_owned().into()).expose_secret(), expected, "{given:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_without_being_shown() {
        let error = text(&b"canary\xff"[..], "standard input").unwrap_err();
        assert!(error.describe().contains("UTF-8") && !error.describe().contains("canary"));
        let longest = text(io::repeat(b'x'), "f").unwrap();
        assert!(longest.expose_secret().len() > MAX_SECRET_BYTES, "the API tells that it is too long");
    }

    #[test]
    fn keys_are_added_behind_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        append(&path, &new_key("k")).unwrap();
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().trim_end()).unwrap();
        let first = sched_runtime::private_file::read(&path).unwrap();
        append(&path, &new_key("k")).unwrap();
        let both = sched_runtime::private_file::read(&path).unwrap();
        let first = SecretKeys::parse(first.expose_secret()).unwrap();
        let both = SecretKeys::parse(both.expose_secret()).unwrap();
        assert_eq!((both.writing_id(), both.ids().count()), (first.writing_id(), 2));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(append(&path, &new_key("k")).unwrap_err().to_string().contains("chmod 600"));
    }
}
