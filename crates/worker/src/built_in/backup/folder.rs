//! The folder of backups. Complete files get final names, and only the newest are kept.
//!
//! Only files with the names of this module are read or removed. Each run locks the file that it
//! writes, so an unlocked file is abandoned. The checksum is written after the rename. A run that
//! dies in between leaves a complete backup without a checksum.

use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use uuid::Uuid;

use super::super::archive::hex;

const PREFIX: &str = "sched-backup-";
const SUFFIX: &str = ".pgdump";
const UNFINISHED: &str = ".part";
const CHECKSUM: &str = ".sha256";

#[derive(Debug)]
pub(super) struct Folder(PathBuf);

#[derive(Debug)]
pub(super) struct Unfinished {
    file: File,
    name: String,
    dir: PathBuf,
    hasher: Sha256,
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct Backup {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Folder {
    pub(super) async fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir).await?;
        Ok(Self(dir.to_owned()))
    }

    /// Only the worker's user may read the file: it contains the whole database.
    pub(super) async fn begin(&self, at: DateTime<Utc>, attempt: Uuid) -> io::Result<Unfinished> {
        // Names sort by age. The attempt distinguishes backups within a second.
        let attempt: String = attempt.simple().to_string().chars().rev().take(8).collect();
        let name = format!("{PREFIX}{}-{attempt}{SUFFIX}", at.format("%Y%m%dT%H%M%SZ"));
        let path = self.0.join(format!("{name}{UNFINISHED}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).await?;
        let file = file.into_std().await;
        file.try_lock()?;
        if file.metadata()?.nlink() == 0 {
            return Err(io::Error::other("another backup removed the new file at the same time"));
        }
        let file = File::from_std(file);
        Ok(Unfinished { file, name, dir: self.0.clone(), hasher: Sha256::new(), bytes: 0 })
    }

    pub(super) async fn remove_unfinished(&self) -> io::Result<()> {
        for name in self.names(UNFINISHED).await? {
            let path = self.0.join(name);
            let file = match File::open(&path).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?.into_std().await,
            };
            match file.try_lock() {
                Ok(()) => remove(&path).await?,
                // Another run writes it.
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes all but the newest `keep` backups with their checksums. Returns the names of the
    /// removed backups.
    pub(super) async fn keep_newest(&self, keep: u32) -> io::Result<Vec<String>> {
        let mut names = self.names(SUFFIX).await?;
        names.sort_unstable();
        let old = names.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        names.truncate(old);
        for name in &names {
            remove(&self.0.join(name)).await?;
        }
        // Also checksums without a backup.
        for checksum in self.names(CHECKSUM).await? {
            let of = checksum.strip_suffix(CHECKSUM).unwrap_or(&checksum);
            if !fs::try_exists(self.0.join(of)).await? {
                remove(&self.0.join(&checksum)).await?;
            }
        }
        Ok(names)
    }

    async fn names(&self, end: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut entries = fs::read_dir(&self.0).await?;
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(PREFIX) && name.ends_with(end) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

/// Another run may have removed it.
async fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Unfinished {
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    fn unfinished_path(&self) -> PathBuf {
        self.dir.join(format!("{}{UNFINISHED}", self.name))
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).await?;
        self.hasher.update(bytes);
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) async fn discard(self) -> io::Result<()> {
        fs::remove_file(self.unfinished_path()).await
    }

    /// Syncs the backup, renames it and writes its checksum.
    pub(super) async fn finish(mut self) -> io::Result<Backup> {
        self.file.flush().await?;
        self.file.sync_all().await?;
        let (path, from) = (self.path(), self.unfinished_path());
        fs::rename(from, &path).await?;
        let sha256 = hex(&self.hasher.finalize());
        let mut sums = File::create(self.dir.join(format!("{}{CHECKSUM}", self.name))).await?;
        sums.write_all(format!("{sha256}  {}\n", self.name).as_bytes()).await?;
        sums.flush().await?;
        sums.sync_all().await?;
        File::open(&self.dir).await?.sync_all().await?;
        Ok(Backup { path: path.display().to_string(), bytes: self.bytes, sha256 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn backup(folder: &Folder, second: i64, content: &[u8]) -> Backup {
        let at = DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap();
        let mut file = folder.begin(at, Uuid::new_v4()).await.unwrap();
        file.write(content).await.unwrap();
        file.finish().await.unwrap()
    }

    #[tokio::test]
    async fn newest_backups_are_kept_and_foreign_files_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("a/b")).await.unwrap();
        let other = dir.path().join("a/b/other.dump");
        std::fs::write(&other, "x").unwrap();
        let mut made = Vec::new();
        for second in [0, 5, 9, 10] {
            made.push(backup(&folder, second, b"content").await);
        }
        assert_eq!(made[0].sha256, "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73");
        assert_eq!(made[0].bytes, 7);
        let removed = folder.keep_newest(2).await.unwrap();
        assert_eq!(removed.len(), 2);
        let are_there: Vec<bool> = made.iter().map(|backup| Path::new(&backup.path).exists()).collect();
        assert_eq!(are_there, [false, false, true, true]);
        assert!(other.exists());
        assert_eq!(
            std::fs::read_dir(&folder.0).unwrap().count(),
            5,
            "two with their checksums, and the other's"
        );
    }

    #[tokio::test]
    async fn concurrent_backup_survives_and_lone_checksums_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).await.unwrap();
        let mut file = folder.begin(DateTime::UNIX_EPOCH, Uuid::new_v4()).await.unwrap();
        file.write(b"half").await.unwrap();
        folder.remove_unfinished().await.unwrap();
        let done = file.finish().await.unwrap();
        assert!(Path::new(&done.path).exists());
        let alone = dir.path().join(format!("{PREFIX}20200101T000000Z-00000000{SUFFIX}{CHECKSUM}"));
        std::fs::write(&alone, "x").unwrap();
        assert!(folder.keep_newest(1).await.unwrap().is_empty());
        assert!(!alone.exists());
        assert!(dir.path().join(format!("{}{CHECKSUM}", done.path)).exists(), "that of the backup stays");
    }

    #[tokio::test]
    async fn unfinished_backup_is_removed_by_the_next_run() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).await.unwrap();
        let mut file = folder.begin(DateTime::UNIX_EPOCH, Uuid::new_v4()).await.unwrap();
        file.write(b"half").await.unwrap();
        assert!(!file.path().exists());
        assert!(folder.keep_newest(1).await.unwrap().is_empty());
        drop(file);
        folder.remove_unfinished().await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
