//! Writes a month to storage, in bounded memory. An unfinished object never appears.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use object_store::buffered::BufWriter;
use sched_model::Conn;
use sched_model::retention::archive::{self, DetachedMonth};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::target::Store;
use super::{Content, hex};
use crate::handlers::native::{Ctx, HandlerError};

/// Table blocks per read: 64 KiB, plus toasted values.
const BLOCKS: i64 = 8;
const PIECE_BYTES: usize = 256 * 1024;
const PART_BYTES: usize = 8 * 1024 * 1024;
const PARTS: usize = 2;

/// Writes the month to a new object. `None` if it was cancelled; then there is no object.
pub(super) async fn write(
    conn: &mut Conn,
    ctx: &Ctx,
    month: &DetachedMonth,
    mut object: Object<'_>,
) -> Result<Option<Content>, HandlerError> {
    match fill(conn, ctx, &mut object, month).await {
        Ok(true) => Ok(Some(object.finish().await?)),
        Ok(false) => {
            object.writer.abort().await?;
            Ok(None)
        }
        Err(error) => {
            if let Err(left) = object.writer.abort().await {
                ctx.log(format!("parts of {} may be left: {left}", object.name));
            }
            Err(error)
        }
    }
}

/// Returns false if the month was cancelled before the end.
async fn fill(
    conn: &mut Conn,
    ctx: &Ctx,
    object: &mut Object<'_>,
    month: &DetachedMonth,
) -> Result<bool, HandlerError> {
    let mut first = 0;
    while first < month.blocks {
        if ctx.is_cancelled() {
            return Ok(false);
        }
        ctx.progress(first as f32 / month.blocks as f32 * 100.0, &month.name);
        for line in archive::rows(conn, month, first, BLOCKS).await? {
            object.line(&line).await?;
        }
        first += BLOCKS;
    }
    Ok(true)
}

/// An object of the storage while it is written.
pub(super) struct Object<'a> {
    name: &'a str,
    gzip: GzEncoder<Vec<u8>>,
    writer: BufWriter,
    hasher: Sha256,
    rows: u64,
    bytes: u64,
}

impl<'a> Object<'a> {
    pub(super) fn new(store: &Store, name: &'a str) -> Self {
        let writer = BufWriter::with_capacity(store.objects(), store.path(name), PART_BYTES);
        Self {
            name,
            gzip: GzEncoder::new(Vec::new(), Compression::default()),
            writer: writer.with_max_concurrency(PARTS),
            hasher: Sha256::new(),
            rows: 0,
            bytes: 0,
        }
    }

    async fn line(&mut self, line: &str) -> Result<(), HandlerError> {
        self.gzip.write_all(line.as_bytes())?;
        self.gzip.write_all(b"\n")?;
        self.rows += 1;
        if self.gzip.get_ref().len() >= PIECE_BYTES {
            let piece = std::mem::take(self.gzip.get_mut());
            self.piece(piece).await?;
        }
        Ok(())
    }

    async fn piece(&mut self, piece: Vec<u8>) -> Result<(), HandlerError> {
        self.hasher.update(&piece);
        self.bytes += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        Ok(self.writer.put(piece.into()).await?)
    }

    async fn finish(mut self) -> Result<Content, HandlerError> {
        self.gzip.try_finish()?;
        let last = std::mem::take(self.gzip.get_mut());
        self.piece(last).await?;
        self.writer.shutdown().await?;
        Ok(Content { rows: self.rows, bytes: self.bytes, sha256: hex(&self.hasher.finalize()) })
    }
}
