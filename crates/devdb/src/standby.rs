//! A second server that follows a first one: a copy of its data that goes on receiving its log.
//!
//! The copy is built beside its place and moved there when complete, as the data of a cluster is. What an interrupted copy leaves is removed by
//! the next. Which of two servers is the right one is not decided here: whoever promotes the second has ended the first.

use std::{fs, os::unix::fs::DirBuilderExt, path::Path};

use crate::{
    Cluster, DevDbError, OpenOptions,
    account::{Account, checked},
};

/// What a server needs whose log others receive; for [`OpenOptions::settings`] of both.
pub const REPLICATED: [&str; 3] = ["wal_level=replica", "max_wal_senders=5", "max_replication_slots=5"];

impl Cluster {
    /// Makes and starts a server that follows this one under the name `name`, by which it can be asked to be waited for. It reaches this one
    /// through `port` of 127.0.0.1 if that is given, else through the socket. Both are opened with [`REPLICATED`].
    ///
    /// # Errors
    ///
    /// When the folder cannot be used, or the copy cannot be made or started.
    pub fn follow(&self, options: OpenOptions, name: &str, port: Option<u16>) -> Result<Self, DevDbError> {
        fs::create_dir_all(&options.dir).map_err(DevDbError::file("create", &options.dir))?;
        let (data, new) = (options.dir.join("data"), options.dir.join("data.new"));
        if new.exists() {
            fs::remove_dir_all(&new).map_err(DevDbError::file("remove", &new))?;
        }
        fs::DirBuilder::new().mode(0o700).create(&new).map_err(DevDbError::file("create", &new))?;
        self.copy_to(&new, Account::for_folder(&options.dir)?, name, port)?;
        fs::rename(&new, &data).map_err(DevDbError::file("move the copy to", &data))?;
        Self::open(options)
    }

    fn copy_to(&self, new: &Path, account: Account, name: &str, port: Option<u16>) -> Result<(), DevDbError> {
        account.take_over(new)?;
        let host = port.map_or_else(|| self.socket.display().to_string(), |_| "127.0.0.1".to_owned());
        let server =
            format!("host='{host}' port={} user=postgres application_name={name}", port.unwrap_or(self.port));
        let program = self.bin("pg_basebackup");
        let mut command = account.command(&program);
        command.arg("-D").arg(new).args(["-d", &server, "-R", "-X", "stream", "-c", "fast"]);
        // With a slot of its own the first server keeps what the second has not had yet.
        command.args(["-C", "-S", name]);
        let output =
            command.output().map_err(|source| DevDbError::Run { program: program.clone(), source })?;
        checked(program, &output)
    }
}
