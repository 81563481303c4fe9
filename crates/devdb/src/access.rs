//! URLs, databases and the password of a running cluster.
//!
//! Statements run through the server's own `psql`, so this crate needs no client library. They
//! create the databases to which `model` connects.

use std::{
    fs::{self, File},
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use crate::{
    Cluster, DevDbError,
    account::{Account, checked},
    cluster::DEFAULT_PORT,
};

impl Cluster {
    pub fn url(&self, database: &str) -> String {
        let host = encode(&self.socket.to_string_lossy());
        let port = if self.port == DEFAULT_PORT { String::new() } else { format!(":{}", self.port) };
        format!("postgresql://postgres@{host}{port}/{}", encode(database))
    }

    /// URL through 127.0.0.1, with the password; `None` if the server does not listen there.
    ///
    /// # Errors
    ///
    /// If the password cannot be read.
    pub fn loopback_url(&self, database: &str) -> Result<Option<String>, DevDbError> {
        if !self.loopback {
            return Ok(None);
        }
        let path = self.password_file();
        let password = fs::read_to_string(&path).map_err(DevDbError::file("read", path))?;
        Ok(Some(format!("postgresql://postgres:{password}@127.0.0.1:{}/{}", self.port, encode(database))))
    }

    /// Creates a missing database.
    ///
    /// # Errors
    ///
    /// If the server rejects it.
    pub fn create_database(&self, name: &str) -> Result<(), DevDbError> {
        let script = r"SELECT format('CREATE DATABASE %I', :'name')
            WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \gexec";
        self.psql(&["-v", &format!("name={name}")], script)
    }

    /// Sets the role's password from the cluster's folder. The first use creates the password.
    pub(crate) fn set_password(&self) -> Result<(), DevDbError> {
        let path = self.password_file();
        if !path.is_file() {
            let mut bytes = [0; 16];
            let random = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
            random.map_err(DevDbError::file("read", "/dev/urandom"))?;
            let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let created = File::options().create_new(true).write(true).mode(0o600).open(&path);
            let written = created.and_then(|mut file| file.write_all(password.as_bytes()));
            written.map_err(DevDbError::file("write", &path))?;
        }
        let password = fs::read_to_string(&path).map_err(DevDbError::file("read", &path))?;
        let hexadecimal: String = password.chars().filter(char::is_ascii_hexdigit).collect();
        self.psql(&[], &format!("ALTER ROLE postgres PASSWORD '{hexadecimal}';"))
    }

    fn password_file(&self) -> PathBuf {
        self.dir.join("password")
    }

    /// Runs a script through `psql`'s input: other users do not see it in the process list.
    fn psql(&self, arguments: &[&str], script: &str) -> Result<(), DevDbError> {
        let made = tempfile::tempfile().and_then(|mut file| {
            file.write_all(script.as_bytes())?;
            file.rewind()?;
            Ok(file)
        });
        let input = made.map_err(DevDbError::file("create a file in", std::env::temp_dir()))?;
        let program = self.bin("psql");
        let mut command = Account::Ourselves.command(&program);
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres"]);
        command.arg("-h").arg(&self.socket).args(["-p", &self.port.to_string()]).args(arguments).stdin(input);
        let output =
            command.output().map_err(|source| DevDbError::Run { program: program.clone(), source })?;
        checked(program, &output)
    }
}

/// Percent-encodes characters that a URL's host may not contain.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
