//! Progress of a program, read from a file while the program runs.
//!
//! The last complete line of `SCHED_PROGRESS_FILE` counts. Lines between two reads, or right before
//! the end, are not reported. The program may be hostile, so the file is opened like the result
//! file, and only its end is read. Secrets are removed from a line before it is parsed, so a line
//! that is incomplete at either end is ignored.

use std::convert::Infallible;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Gid, Uid};

use super::super::{Live, storable};
use super::ownership;
use super::result_file::open_program_file;

pub(super) const PROGRESS: &str = "progress";
const INTERVAL: Duration = Duration::from_secs(1);
/// Each read switches to the rights of another owner.
const INTERVAL_AS_OWNER: Duration = Duration::from_secs(5);
/// From the end of the file.
const READ: u32 = 4096;

/// Percentage from 0 to 100, and the remaining text.
type ProgressLine = (Option<f32>, String);

#[derive(Debug)]
pub(super) struct Follower {
    folder: Option<Arc<OwnedFd>>,
    owner: Option<(Uid, Gid)>,
    live: Live,
}

impl Follower {
    /// `owner` is the owner of the directory if it is another user. Without a directory the
    /// follower sends nothing.
    pub(super) fn new(folder: Option<OwnedFd>, owner: Option<(Uid, Gid)>, live: &Live) -> Self {
        Self { folder: folder.map(Arc::new), owner, live: live.clone() }
    }

    pub(super) async fn follow(self) -> Infallible {
        let Some(folder) = self.folder.filter(|_| self.live.is_heard()) else {
            return std::future::pending().await;
        };
        let (mut seen, mut sent) = (None, None);
        let pause = if self.owner.is_none() { INTERVAL } else { INTERVAL_AS_OWNER };
        loop {
            tokio::time::sleep(pause).await;
            let (folder, owner) = (folder.clone(), self.owner);
            let polled = tokio::task::spawn_blocking(move || poll(&folder, owner, seen)).await;
            // The next read may succeed.
            let Ok(Ok(Some((version, line)))) = polled else { continue };
            seen = Some(version);
            if let Some(line) = line.filter(|line| sent.as_ref() != Some(line)) {
                let (percent, message) = read(&self.live.without_secrets(line.clone()));
                self.live.progress(percent, message);
                sent = Some(line);
            }
        }
    }
}

/// Inode, modification time and length.
type FileVersion = (u64, i64, i64, u64);

/// `None` if the file equals `seen`.
fn poll(
    folder: &OwnedFd,
    owner: Option<(Uid, Gid)>,
    seen: Option<FileVersion>,
) -> io::Result<Option<(FileVersion, Option<String>)>> {
    let open = || open_program_file(folder, PROGRESS, owner.map(|(uid, _)| uid));
    let opened = match owner {
        None => open(),
        Some(owner) => ownership::as_owner(owner, open)?,
    };
    let Some(mut file) = opened.map_err(io::Error::other)? else { return Ok(None) };
    let metadata = file.metadata()?;
    let version = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len());
    if seen == Some(version) {
        return Ok(None);
    }
    let skipped = metadata.len().saturating_sub(READ.into());
    file.seek(SeekFrom::Start(skipped))?;
    let mut end = Vec::new();
    file.take(READ.into()).read_to_end(&mut end)?;
    Ok(Some((version, last_line(&end, skipped > 0))))
}

/// `end` is the end of a file, which may begin `in_a_line`.
fn last_line(end: &[u8], in_a_line: bool) -> Option<String> {
    let text = storable::text(end);
    let (whole, _) = text.rsplit_once('\n')?;
    let whole = if in_a_line { whole.split_once('\n')?.1 } else { whole };
    Some(whole.lines().map(str::trim).rfind(|line| !line.is_empty())?.to_owned())
}

/// `40`, `40%` and `40% of the tables` have a percentage, `40 tables` has none.
fn read(line: &str) -> ProgressLine {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let number = first.strip_suffix('%').or((rest.is_empty()).then_some(first));
    let percent = number.and_then(|number| number.parse::<f32>().ok()).filter(|percent| percent.is_finite());
    match percent {
        Some(percent) => (Some(percent.clamp(0.0, 100.0)), rest.trim_start().to_owned()),
        None => (None, line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::workspace::open_folder;
    use super::*;

    #[test]
    fn last_complete_line_counts() {
        for (text, in_a_line, line) in [
            ("", false, None),
            ("40%", false, None),
            ("\n \n", false, None),
            ("a\n", false, Some("a")),
            ("a\nb\n\n", false, Some("b")),
            ("a\nsecr", false, Some("a")),
            ("et\n", true, None),
            ("et\nb\n", true, Some("b")),
            ("a\u{0}b\n", false, Some("a\u{FFFD}b")),
        ] {
            assert_eq!(last_line(text.as_bytes(), in_a_line).as_deref(), line, "{text:?}");
        }
    }

    #[test]
    fn line_may_start_with_a_percentage() {
        for (line, percent, message) in [
            ("40", Some(40.0), ""),
            ("12.5%  of the tables", Some(12.5), "of the tables"),
            ("40 tables", None, "40 tables"),
            ("3 of 7", None, "3 of 7"),
            ("loading", None, "loading"),
            ("150% much", Some(100.0), "much"),
            ("-3", Some(0.0), ""),
            ("nan", None, "nan"),
        ] {
            assert_eq!(read(line), (percent, message.to_owned()), "{line:?}");
        }
    }

    #[test]
    fn unchanged_or_irregular_progress_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open_folder(dir.path()).unwrap();
        let path = dir.path().join(PROGRESS);
        assert_eq!(poll(&folder, None, None).unwrap(), None);
        fs::write(&path, "x".repeat(100_000) + "\n7% done\n").unwrap();
        let (seen, line) = poll(&folder, None, None).unwrap().unwrap();
        assert_eq!(line.as_deref(), Some("7% done"));
        assert_eq!(poll(&folder, None, Some(seen)).unwrap(), None);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(poll(&folder, None, None).is_err());
    }
}
