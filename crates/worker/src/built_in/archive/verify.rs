//! Reads an archived month back from storage, in bounded memory.

use std::io::{self, Write};

use flate2::write::GzDecoder;
use futures_util::TryStreamExt as _;
use object_store::ObjectStoreExt as _;
use sha2::{Digest as _, Sha256};

use super::target::Store;
use super::{Content, hex};
use crate::handlers::native::HandlerError;

pub(super) async fn read_back(store: &Store, name: &str) -> Result<Content, HandlerError> {
    let mut pieces = store.objects().get(&store.path(name)).await?.into_stream();
    let (mut hasher, mut bytes) = (Sha256::new(), 0_u64);
    let mut lines = GzDecoder::new(Lines(0));
    while let Some(piece) = pieces.try_next().await? {
        hasher.update(&piece);
        bytes += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        lines.write_all(&piece)?;
    }
    // Fails if the end is missing or the gzip checksum is wrong.
    let rows = lines.finish()?.0;
    Ok(Content { rows, bytes, sha256: hex(&hasher.finalize()) })
}

struct Lines(u64);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.0 += u64::try_from(ends).unwrap_or(u64::MAX);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
