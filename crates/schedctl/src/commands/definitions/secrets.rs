//! `secrets`: set, list and delete them, and generate and rotate their encryption keys.
//!
//! A value is never read from the command line, which every user of the machine can read, and never
//! printed. The terminal does not echo it; its settings are restored on every exit, also after
//! Ctrl-C. `keygen` never sends keys.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use sched_model::domain::secret::MAX_SECRET_BYTES;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{DeleteSecretQuery, PageQuery, Secret, SecretQuery, SecretSpec, SecretsRotated};
use secrecy::{ExposeSecret as _, SecretString};

use crate::commands::{Session, print_more};
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Column, or_dash, print_notice, time};
use crate::secret_keys::new_key;
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Set the value of a secret, from --from-file, standard input, or a prompt without echo
    ///
    /// One final line end is removed from standard input and the prompt; a file is taken unchanged.
    /// Attempts that start later use the new value.
    Set(SetArgs),
    /// List secrets, without their values
    List {
        /// Maximum number of secrets to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one secret, without its value
    #[command(visible_alias = "show")]
    Get {
        /// Name of the secret
        name: String,
        /// Project of the secret; default: a secret of the whole tenant
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
    },
    /// Delete a secret; fails while a function names it
    Delete {
        /// Name of the secret
        name: String,
        /// Project of the secret; default: a secret of the whole tenant
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Delete it even if functions name it; their attempts fail until it is set again
        #[arg(long)]
        force: bool,
    },
    /// Generate a key for the key file of the API and the workers; needs no API
    ///
    /// Without --file the line is printed. An existing file gets the key as its last line, which
    /// decrypts but does not encrypt yet. Steps of a rotation:
    /// `docs/operate/security.md#rotate-the-keys`.
    Keygen {
        /// File for the key; created with access only for its owner
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Re-encrypt all secrets with the first key of the API's key file; exit code 1 if some cannot
    /// be decrypted
    Rotate,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Name of the secret
    name: String,
    /// Only for jobs of this project, where it takes precedence over that of the tenant; default:
    /// for all jobs
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// File whose unchanged content is the value
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
            print_more(&secrets, limit);
        }
        SecretsCommand::Get { name, project } => {
            let secret: Secret = session.api()?.get(&["secrets", &name], &SecretQuery { project }).await?;
            session.output.whole(&secret, LIST)?;
        }
        SecretsCommand::Delete { name, project, force } => {
            session.api()?.delete(&["secrets", &name], &DeleteSecretQuery { project, force }).await?;
            print_notice("deleted");
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
        None if io::stdin().is_terminal() => prompt(&format!("Value of {} (not shown): ", args.name)).await?,
        None => without_line_end(text(io::stdin(), "standard input")?),
    };
    if value.expose_secret().is_empty() {
        return Err(usage(anyhow!(no_value(args.from_file.as_deref()))));
    }
    let spec = SecretSpec { value: value.expose_secret().to_owned() };
    let query = SecretQuery { project: args.project };
    let secret: Secret = api.put(&["secrets", &args.name], &query, &spec).await?;
    session.output.record(&secret, GET)
}

fn no_value(from: Option<&Path>) -> String {
    match from {
        Some(path) => format!("{} is empty; a secret has at least one character", path.display()),
        None => "no value on standard input; send it there, as in `printf %s \"$VALUE\" | schedctl secrets set NAME`, or use --from-file".to_owned(),
    }
}

fn from_file(path: &Path) -> Result<SecretString, ExitError> {
    let name = path.display().to_string();
    let unreadable = |error| usage(anyhow::Error::new(error).context(format!("{name}: could not be read")));
    text(File::open(path).map_err(unreadable)?, &name)
}

/// Reads up to the length limit of the API.
pub(crate) fn text(from: impl Read, name: &str) -> Result<SecretString, ExitError> {
    let longest = MAX_SECRET_BYTES as u64;
    let mut bytes = Vec::new();
    // Room for one line end, which may be removed.
    let read = from.take(longest + 3).read_to_end(&mut bytes);
    read.map_err(|error| usage(anyhow::Error::new(error).context(format!("{name}: could not be read"))))?;
    // Invalid text may be the value, so the message omits it.
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
        // Fails if the terminal is gone.
        let _ = tcsetattr(io::stdin().as_fd(), SetArg::TCSAFLUSH, &self.0);
    }
}

pub(crate) async fn prompt(question: &str) -> Result<SecretString, ExitError> {
    let mut terminal = io::stderr();
    write!(terminal, "{question}").and_then(|()| terminal.flush()).map_err(failure)?;
    let _unshown = Unshown::begin().map_err(failure)?;
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_length| SecretString::from(line))
    });
    // Otherwise Ctrl-C would leave the terminal without echo.
    tokio::select! {
        line = read => Ok(without_line_end(line.map_err(failure)?.map_err(failure)?)),
        _ = tokio::signal::ctrl_c() => Err(failure(anyhow!("nothing was set"))),
    }
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
        print_notice(&format!(
            "created {} with key {id}; keep a copy apart from the backups of the database",
            path.display()
        ));
    } else {
        print_notice(&format!(
            "added key {id} to {}; restart the API and the workers, then make its line the first and restart the API, then run \
             `schedctl secrets rotate`",
            path.display()
        ));
    }
    Ok(())
}

fn append(path: &Path, line: &SecretString) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).read(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other("other users can access it; remove their rights with chmod 600"));
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
        assert!(longest.expose_secret().len() > MAX_SECRET_BYTES, "the API rejects longer values");
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
