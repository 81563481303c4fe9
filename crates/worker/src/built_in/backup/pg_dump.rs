//! Runs `pg_dump` and reads its output.
//!
//! `pg_dump` exits at its next write if the worker dies. It is killed if the attempt is cancelled
//! or dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::connection::Connection;
use super::folder::Unfinished;
use crate::handlers::native::{Ctx, HandlerError};

const PROGRAM: &str = "pg_dump";
const PIECE_BYTES: usize = 256 * 1024;
const COMPLAINT_BYTES: usize = 16 * 1024;
const PROGRESS_BYTES: u64 = 64 * 1024 * 1024;
/// libpq variables that may concern another database.
const FOREIGN: [&str; 10] = [
    "PGHOST",
    "PGHOSTADDR",
    "PGPORT",
    "PGDATABASE",
    "PGUSER",
    "PGPASSWORD",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGOPTIONS",
    "PGSSLMODE",
];

#[derive(Debug)]
pub(super) struct PgDump(PathBuf);

impl PgDump {
    /// In `dir` or on the path; not older than the server.
    pub(super) async fn find(dir: Option<&Path>, server: u32) -> Result<Self, HandlerError> {
        let program = dir.map_or_else(|| PathBuf::from(PROGRAM), |dir| dir.join(PROGRAM));
        let shown = program.display().to_string();
        let output =
            Command::new(&program).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.map_err(|error| {
            let text = match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "{shown} does not exist on this worker: install the client programs of PostgreSQL {server}, or set PG_BIN_DIR"
                ),
                _ => format!("{shown} cannot be started: {error}"),
            };
            HandlerError::new("pg_dump_missing", text).no_retry()
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(version) = major_version(&text) else {
            let text = format!("{shown} does not report its version: {text}");
            return Err(HandlerError::new("pg_dump_missing", text).no_retry());
        };
        if version < server {
            let text = format!(
                "{shown} is of version {version} and cannot dump a server of version {server}: install newer client programs, or set PG_BIN_DIR"
            );
            return Err(HandlerError::new("pg_dump_too_old", text).no_retry());
        }
        Ok(Self(program))
    }

    pub(super) async fn dump(
        &self,
        connection: &Connection,
        ctx: &Ctx,
        file: &mut Unfinished,
    ) -> Result<(), HandlerError> {
        let mut command = Command::new(&self.0);
        command
            // Forced row-level security applies to the owner of the tables too. The policies let a
            // worker see all rows.
            .args(["--format=custom", "--no-password", "--lock-wait-timeout=60s", "--enable-row-security"])
            .arg("--dbname")
            .arg(&connection.url);
        for name in FOREIGN {
            command.env_remove(name);
        }
        if let Some(password) = &connection.password {
            command.env("PGPASSWORD", password.expose_secret());
        }
        command.env("LC_ALL", "C").kill_on_drop(true);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (Some(dump), Some(complaints)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(HandlerError::from("pg_dump has no pipes"));
        };
        let work = async {
            let (written, complaints) = tokio::join!(take(dump, ctx, file), keep_some(complaints));
            Ok::<_, HandlerError>((written, complaints, child.wait().await?))
        };
        let (written, complaints, status) = tokio::select! {
            ended = work => ended?,
            // Dropping the child kills the program.
            () = ctx.cancelled() => return Err(HandlerError::from("cancelled while pg_dump ran")),
        };
        for line in complaints.lines() {
            ctx.log(line);
        }
        written?;
        if status.success() {
            return Ok(());
        }
        Err(HandlerError::new(
            "pg_dump_failed",
            format!("pg_dump ended with {status}: {}", complaints.trim()),
        ))
    }
}

async fn take(mut pipe: impl AsyncRead + Unpin, ctx: &Ctx, file: &mut Unfinished) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut reported = 0;
    loop {
        let count = pipe.read(&mut piece).await?;
        let Some(bytes) = piece.get(..count).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        file.write(bytes).await?;
        if file.bytes() - reported >= PROGRESS_BYTES {
            reported = file.bytes();
            ctx.progress(None, format!("{reported} bytes"));
        }
    }
}

async fn keep_some(mut pipe: impl AsyncRead + Unpin) -> String {
    let (mut kept, mut piece) = (Vec::new(), vec![0; 4096]);
    // A read error counts as the end: the exit code shows a failure.
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        let room = COMPLAINT_BYTES - kept.len();
        kept.extend(piece.iter().take(count.min(room)));
    }
    String::from_utf8_lossy(&kept).into_owned()
}

fn major_version(text: &str) -> Option<u32> {
    let version = text.split(')').nth(1)?.split_whitespace().next()?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_is_parsed() {
        for (text, version) in [
            ("pg_dump (PostgreSQL) 17.2 (Debian 17.2-1.pgdg120+1)\n", Some(17)),
            ("pg_dump (PostgreSQL) 18beta1\n", Some(18)),
            ("pg_dump (EnterpriseDB) 16.1\n", Some(16)),
            ("something else", None),
            ("", None),
        ] {
            assert_eq!(major_version(text), version, "{text}");
        }
    }

    #[tokio::test]
    async fn missing_or_old_pg_dump_names_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let missing = PgDump::find(Some(dir.path()), 17).await.unwrap_err();
        assert_eq!(missing.class(), "pg_dump_missing");
        assert!(missing.to_string().contains("PG_BIN_DIR"), "{missing}");
        let program = dir.path().join(PROGRAM);
        std::fs::write(&program, "#!/bin/sh\necho 'pg_dump (PostgreSQL) 15.3'\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let old = PgDump::find(Some(dir.path()), 17).await.unwrap_err();
        assert_eq!(old.class(), "pg_dump_too_old");
        assert!(PgDump::find(Some(dir.path()), 15).await.is_ok());
    }
}
