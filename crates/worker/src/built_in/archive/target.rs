//! The storage of archives: a folder, or a bucket of S3 or of a compatible service.
//!
//! Credentials, region and endpoint of S3 come from the `AWS_*` variables of the worker.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use crate::handlers::native::HandlerError;

const FILE: &str = "file://";
const S3: &str = "s3://";

/// The storage of archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveTarget {
    /// A folder. It is created if it does not exist.
    Folder(PathBuf),
    /// A bucket.
    S3 {
        /// Name.
        bucket: String,
        /// Prefix of all object names. May be empty.
        prefix: String,
    },
}

impl FromStr for ArchiveTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "must be file:///absolute/folder or s3://bucket/prefix";
        if let Some(path) = text.strip_prefix(FILE) {
            let is_absolute = path.starts_with('/') && path.len() > 1;
            return if is_absolute { Ok(Self::Folder(PathBuf::from(path))) } else { Err(wanted.to_owned()) };
        }
        let Some(rest) = text.strip_prefix(S3) else { return Err(wanted.to_owned()) };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
        if bucket.len() < 3 || bucket.len() > 63 || !bucket.chars().all(is_name) {
            return Err(format!("{wanted}; {bucket:?} is not a bucket name"));
        }
        Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.trim_matches('/').to_owned() })
    }
}

impl ArchiveTarget {
    pub(super) async fn open(&self) -> Result<Store, HandlerError> {
        match self {
            Self::Folder(path) => {
                tokio::fs::create_dir_all(path).await?;
                // The month is dropped once its archive exists, so the file must be synced to disk.
                let store = LocalFileSystem::new_with_prefix(path)?.with_fsync(true);
                let shown = format!("{FILE}{}", path.display());
                Ok(Store { store: Arc::new(store), prefix: String::new(), shown })
            }
            Self::S3 { bucket, prefix } => {
                // The provider may be installed already.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build()?;
                Ok(Store { store: Arc::new(store), prefix: prefix.clone(), shown: format!("{S3}{bucket}") })
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Store {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    shown: String,
}

impl Store {
    pub(super) fn objects(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    pub(super) fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    pub(super) fn describe(&self, name: &str) -> String {
        format!("{}/{}", self.shown, self.path(name))
    }

    fn checksum_path(&self, name: &str) -> Path {
        self.path(&format!("{name}.sha256"))
    }

    pub(super) async fn put_checksum(&self, name: &str, sha256: &str) -> Result<(), HandlerError> {
        let file = name.rsplit('/').next().unwrap_or(name);
        let line = format!("{sha256}  {file}\n");
        self.store.put(&self.checksum_path(name), line.into_bytes().into()).await?;
        Ok(())
    }

    pub(super) async fn checksum(&self, name: &str) -> Result<Option<String>, HandlerError> {
        let found = match self.store.get(&self.checksum_path(name)).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let text = String::from_utf8_lossy(&found);
        Ok(text.split_whitespace().next().map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_target_accepts_folders_and_buckets_only() {
        assert_eq!("file:///var/a".parse(), Ok(ArchiveTarget::Folder("/var/a".into())));
        let s3 = |bucket: &str, prefix: &str| {
            Ok(ArchiveTarget::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
        };
        assert_eq!("s3://history".parse(), s3("history", ""));
        assert_eq!("s3://history/a/b/".parse(), s3("history", "a/b"));
        for wrong in
            ["", "/var/a", "file://a", "file:///", "s3://", "s3://UPPER/x", "https://x/y", "gs://bucket"]
        {
            let refused = wrong.parse::<ArchiveTarget>();
            assert!(refused.is_err_and(|text| text.contains("must be file:///")), "{wrong}");
        }
    }
}
