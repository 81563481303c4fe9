//! Where history is archived: a folder, or a bucket of S3 or of what speaks its language.
//!
//! Naming and reaching it only; what lies there is the other modules' part. Credentials, region and endpoint of S3 are the `AWS_*` variables of the
//! worker's environment, and nothing of them is kept here.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use crate::handlers::native::HandlerError;

/// What stands before the path of a folder.
const FILE: &str = "file://";
/// What stands before the name of a bucket.
const S3: &str = "s3://";

/// A place for archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveTarget {
    /// A folder; made when it does not exist.
    Folder(PathBuf),
    /// A bucket.
    S3 {
        /// Its name.
        bucket: String,
        /// What the names of all objects begin with; may be empty.
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
            return Err(format!("{wanted}; {bucket:?} is no name of a bucket"));
        }
        Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.trim_matches('/').to_owned() })
    }
}

impl ArchiveTarget {
    /// The way to it.
    pub(super) async fn open(&self) -> Result<Store, HandlerError> {
        match self {
            Self::Folder(path) => {
                tokio::fs::create_dir_all(path).await?;
                // A month is dropped once it is known to lie here, so it must lie on the disk.
                let store = LocalFileSystem::new_with_prefix(path)?.with_fsync(true);
                let shown = format!("{FILE}{}", path.display());
                Ok(Store { store: Arc::new(store), prefix: String::new(), shown })
            }
            Self::S3 { bucket, prefix } => {
                // Somebody else may have installed it, and it is the same.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build()?;
                Ok(Store { store: Arc::new(store), prefix: prefix.clone(), shown: format!("{S3}{bucket}") })
            }
        }
    }
}

/// A place that can be written to and read from.
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

    /// Where the object of that name lies.
    pub(super) fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    /// The same for people.
    pub(super) fn describe(&self, name: &str) -> String {
        format!("{}/{}", self.shown, self.path(name))
    }

    fn checksum_path(&self, name: &str) -> Path {
        self.path(&format!("{name}.sha256"))
    }

    /// Stores the checksum of an object, in the form of `sha256sum`.
    pub(super) async fn put_checksum(&self, name: &str, sha256: &str) -> Result<(), HandlerError> {
        let file = name.rsplit('/').next().unwrap_or(name);
        let line = format!("{sha256}  {file}\n");
        self.store.put(&self.checksum_path(name), line.into_bytes().into()).await?;
        Ok(())
    }

    /// The checksum that was stored, if one was.
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
    fn folders_and_buckets_are_read_and_others_refused() {
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
