//! How far a program says it is: a file of its own, looked at while it runs.
//!
//! A program writes a line into the file that `SCHED_PROGRESS_FILE` names, as often as it likes; the last line counts. It is a courtesy for those who
//! watch: what is written between two looks, or in the last moment, is not told, and what is no line of text is passed over. The program may be hostile, so
//! the file is opened as the result is, and no more than its end is read. A short attempt is never looked at.

use std::convert::Infallible;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Gid, Uid};

use super::super::{Live, storable};
use super::ownership;
use super::workspace::open_left;

/// The file that progress is written to.
pub(super) const PROGRESS: &str = "progress";
/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// So much of the end of the file is read.
const READ: u32 = 4096;

/// What a line says: a percentage from 0 to 100, where it begins with one, and the rest.
type Told = (Option<f32>, String);

/// Looks at the file of one attempt.
#[derive(Debug)]
pub(super) struct Follower {
    folder: Option<Arc<OwnedFd>>,
    owner: Option<(Uid, Gid)>,
    live: Live,
}

impl Follower {
    /// Of the attempt whose private directory is open as `folder`, of `owner` if it is another user's. Without a directory it tells nothing.
    pub(super) fn new(folder: Option<OwnedFd>, owner: Option<(Uid, Gid)>, live: &Live) -> Self {
        Self { folder: folder.map(Arc::new), owner, live: live.clone() }
    }

    /// Tells what is new, until it is dropped.
    pub(super) async fn follow(self) -> Infallible {
        let Some(folder) = self.folder else { return std::future::pending().await };
        let (mut seen, mut told) = (None, None);
        loop {
            tokio::time::sleep(LOOK).await;
            let (folder, owner) = (folder.clone(), self.owner);
            let looked = tokio::task::spawn_blocking(move || look(&folder, owner, seen)).await;
            // A file that cannot be read tells nothing, now; the next may.
            let Ok(Ok(Some((as_it_was, line)))) = looked else { continue };
            seen = Some(as_it_was);
            if let Some(line) = line.filter(|line| told.as_ref() != Some(line)) {
                self.live.progress(line.0, line.1.clone());
                told = Some(line);
            }
        }
    }
}

/// When a file was written, and how long it was then.
type AsItWas = (i64, i64, u64);

/// The last line of the file, if there is one and it is not as it was when it was `seen`.
fn look(
    folder: &OwnedFd,
    owner: Option<(Uid, Gid)>,
    seen: Option<AsItWas>,
) -> io::Result<Option<(AsItWas, Option<Told>)>> {
    let open = || open_left(folder, PROGRESS, owner.map(|(uid, _)| uid));
    let opened = match owner {
        None => open(),
        Some(owner) => ownership::as_owner(owner, open)?,
    };
    let Some(mut file) = opened.map_err(io::Error::other)? else { return Ok(None) };
    let metadata = file.metadata()?;
    let as_it_is = (metadata.mtime(), metadata.mtime_nsec(), metadata.len());
    if seen == Some(as_it_is) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(metadata.len().saturating_sub(READ.into())))?;
    let mut end = Vec::new();
    file.take(READ.into()).read_to_end(&mut end)?;
    Ok(Some((as_it_is, last_line(&end))))
}

fn last_line(end: &[u8]) -> Option<Told> {
    let text = storable::text(end);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let percent = first.trim_end_matches('%').parse::<f32>().ok().filter(|percent| percent.is_finite());
    Some(match percent {
        Some(percent) => (Some(percent.clamp(0.0, 100.0)), rest.trim_start().to_owned()),
        None => (None, line.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::workspace::open_folder;
    use super::*;

    #[test]
    fn the_last_line_counts_and_may_begin_with_a_percentage() {
        for (text, told) in [
            ("", None),
            ("\n \n", None),
            ("40", Some((Some(40.0), ""))),
            ("40 half of it\n", Some((Some(40.0), "half of it"))),
            ("12.5%  tables\n", Some((Some(12.5), "tables"))),
            ("1 a\n2 b\n\n", Some((Some(2.0), "b"))),
            ("loading", Some((None, "loading"))),
            ("loading 3 of 4", Some((None, "loading 3 of 4"))),
            ("150 much", Some((Some(100.0), "much"))),
            ("-3 less", Some((Some(0.0), "less"))),
            ("nan inf", Some((None, "nan inf"))),
            ("1 a\u{0}b", Some((Some(1.0), "a\u{FFFD}b"))),
        ] {
            let told = told.map(|(percent, message)| (percent, message.to_owned()));
            assert_eq!(last_line(text.as_bytes()), told, "{text:?}");
        }
    }

    #[test]
    fn only_what_was_written_since_is_read_and_only_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open_folder(dir.path()).unwrap();
        let path = dir.path().join(PROGRESS);
        assert_eq!(look(&folder, None, None).unwrap(), None);
        fs::write(&path, "x".repeat(100_000) + "\n7 done\n").unwrap();
        let (seen, line) = look(&folder, None, None).unwrap().unwrap();
        assert_eq!(line, Some((Some(7.0), "done".to_owned())));
        assert_eq!(look(&folder, None, Some(seen)).unwrap(), None);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(look(&folder, None, None).is_err());
    }
}
