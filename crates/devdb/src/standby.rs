//! A standby: a copy of a first server's data that continues to receive its log.
//!
//! The copy is built beside its final place and moved when complete. The next copy removes
//! leftovers. The caller must have ended the first server before it promotes the second.

use std::{fs, os::unix::fs::DirBuilderExt};

use crate::{
    Cluster, DevDbError, OpenOptions,
    account::{Account, checked},
};

/// [`OpenOptions::settings`] of a server with a standby, and of the standby.
pub const REPLICATED: [&str; 3] = ["wal_level=replica", "max_wal_senders=5", "max_replication_slots=5"];

impl Cluster {
    /// Creates and starts a standby named `name`, for `synchronous_standby_names`. It connects
    /// through `port` of 127.0.0.1 if given, otherwise through the socket. Both need
    /// [`REPLICATED`].
    ///
    /// # Errors
    ///
    /// If the folder cannot be used, or the copy cannot be created or started.
    pub fn follow(&self, options: OpenOptions, name: &str, port: Option<u16>) -> Result<Self, DevDbError> {
        fs::create_dir_all(&options.dir).map_err(DevDbError::file("create", &options.dir))?;
        let (data, new) = (options.dir.join("data"), options.dir.join("data.new"));
        if new.exists() {
            fs::remove_dir_all(&new).map_err(DevDbError::file("remove", &new))?;
        }
        fs::DirBuilder::new().mode(0o700).create(&new).map_err(DevDbError::file("create", &new))?;
        let account = Account::for_folder(&options.dir)?;
        account.take_over(&new)?;
        let program = self.bin("pg_basebackup");
        let mut command = account.command(&program);
        let source = self.replication_source(name, port);
        command.arg("-D").arg(&new).args(["-d", &source, "-R", "-X", "stream", "-c", "fast"]);
        // With its own slot, the first server keeps the log that the second has not received.
        command.args(["-C", "-S", name]);
        let output =
            command.output().map_err(|source| DevDbError::Run { program: program.clone(), source })?;
        checked(program, &output)?;
        fs::rename(&new, &data).map_err(DevDbError::file("move the copy to", &data))?;
        Self::open(options)
    }

    fn replication_source(&self, name: &str, port: Option<u16>) -> String {
        let host = port.map_or_else(|| self.socket.display().to_string(), |_| "127.0.0.1".to_owned());
        format!("host='{host}' port={} user=postgres application_name={name}", port.unwrap_or(self.port))
    }
}
