//! Which API and which database a command speaks to.
//!
//! Flags and variables come first (clap has merged those), then what a running `schedctl dev` wrote into its folder, then
//! the address a fresh installation has. Reads at most one small file; connects to nothing.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sched_runtime::private_file::{self, PrivateFileError};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::cli::Globals;
use crate::dev::folder::{self, Description, FolderError};

/// Where the API of an installation with default settings listens.
const DEFAULT_API: &str = "http://127.0.0.1:8080";

/// Name of the folder that `dev` makes unless told otherwise.
pub(crate) const DATA_DIR: &str = ".sched";

/// Who named an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A flag or its variable, called so.
    Given(&'static str),
    /// The description of a `schedctl dev`.
    Dev(PathBuf),
    /// Nobody.
    Default,
}

impl Source {
    /// The description of the `schedctl dev` that it was.
    pub(crate) fn dev(&self) -> Option<&Path> {
        match self {
            Self::Dev(description) => Some(description),
            Self::Given(_) | Self::Default => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(name) => f.write_str(name),
            Self::Dev(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// The API to speak to.
#[derive(Debug, Clone)]
pub(crate) struct ApiPlace {
    /// Its address.
    pub(crate) url: Url,
    /// The key to show.
    pub(crate) key: Option<SecretString>,
    /// Who named the address.
    pub(crate) source: Source,
}

/// Why no address could be settled on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// The address is none.
    #[error("the API address {text:?} (from {origin}) is not a URL such as {DEFAULT_API}")]
    NotAUrl {
        text: String,
        origin: Source,
        #[source]
        source: url::ParseError,
    },
    /// The address is one of something else.
    #[error("the API address {text:?} (from {origin}) must start with http:// or https:// and name a host")]
    NotHttp { text: String, origin: Source },
    /// A password in an address ends up in logs.
    #[error("the API address (from {origin}) must not hold a user or password; give the key with --api-key")]
    WithPassword { origin: Source },
    /// The folder of `dev` cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file of the key is not to be trusted, or cannot be read.
    #[error("the API key cannot be read from its file")]
    KeyFile(#[from] PrivateFileError),
    /// A folder that was come upon is somebody else's, who could send keys and passwords wherever they like.
    #[error(
        "{} says where a `schedctl dev` runs, but is not a file of your own that is closed to others; name the API with --api-url, or the \
         folder with --data-dir if you trust it", .path.display()
    )]
    NotOwn { path: PathBuf },
    /// `dev` listens on loopback only, so this was not written by it.
    #[error("{} names an API that is not on this machine, which `schedctl dev` never does; name it with --api-url", .path.display())]
    NotHere { path: PathBuf },
    /// Nobody named a database.
    #[error(
        "no database is named: give --database-url, set DATABASE_URL, or start `schedctl dev`, whose database is then used"
    )]
    NoDatabase,
}

/// The API that `globals` name.
///
/// # Errors
/// When the address is none, or the folder of `dev` cannot be read.
pub(crate) fn api(globals: &Globals, here: &Path) -> Result<ApiPlace, PlaceError> {
    let (text, source) = match given(globals.api_url.as_deref()) {
        Some(text) => (text.to_owned(), Source::Given("--api-url or SCHED_API_URL")),
        None => match described(globals, here)? {
            Some((path, description)) => (description.api_url, Source::Dev(path)),
            None => (DEFAULT_API.to_owned(), Source::Default),
        },
    };
    let key = match given(globals.api_key.as_deref()) {
        Some(key) => Some(SecretString::from(key.to_owned())),
        None => match (key_file(globals), &source) {
            (Some(path), _) => Some(read_key(&here.join(path))?),
            // The key of `dev` goes to the API of `dev` and to no other.
            (None, Source::Dev(description)) => {
                let path = folder::api_key_beside(description);
                path.exists().then(|| read_key(&path)).transpose()?
            }
            (None, Source::Given(_) | Source::Default) => None,
        },
    };
    Ok(ApiPlace { url: api_url(&text, &source)?, key, source })
}

/// The URL of the database that `url` or the folder of `dev` names.
///
/// # Errors
/// When there is none, or the folder of `dev` cannot be read.
pub(crate) fn database(
    url: Option<&str>,
    globals: &Globals,
    here: &Path,
) -> Result<(String, Source), PlaceError> {
    if let Some(url) = given(url) {
        return Ok((url.to_owned(), Source::Given("--database-url or DATABASE_URL")));
    }
    match described(globals, here)? {
        Some((path, description)) => Ok((description.database_url, Source::Dev(path))),
        None => Err(PlaceError::NoDatabase),
    }
}

fn key_file(globals: &Globals) -> Option<&Path> {
    globals.api_key_file.as_deref().filter(|path| !path.as_os_str().is_empty())
}

/// The key in a file that only its owner may read.
fn read_key(path: &Path) -> Result<SecretString, PlaceError> {
    let text = private_file::read(path)?;
    Ok(text.expose_secret().trim().to_owned().into())
}

/// A variable that is set but empty counts as not set, as it does for the daemons.
fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// What the folder of `dev` says: the one that is named, or the nearest above. The latter may be anybody's, as in `/tmp` or in a copy
/// of somebody's project, so it must be the caller's own.
fn described(globals: &Globals, here: &Path) -> Result<Option<(PathBuf, Description)>, PlaceError> {
    let named = globals.data_dir.as_deref().filter(|dir| !dir.as_os_str().is_empty());
    let folder = match named {
        Some(dir) => Some(here.join(dir)),
        None => {
            here.ancestors().map(|dir| dir.join(DATA_DIR)).find(|dir| folder::description_of(dir).is_file())
        }
    };
    let Some(path) = folder.map(|dir| folder::description_of(&dir)) else { return Ok(None) };
    if named.is_none() && !is_own(&path) {
        return Err(PlaceError::NotOwn { path });
    }
    let Some(description) = folder::read_description(&path)? else { return Ok(None) };
    let url = Url::parse(&description.api_url).ok();
    let is_here = url.as_ref().and_then(Url::host).is_some_and(|host| match host {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(address) => address.is_loopback(),
        url::Host::Ipv6(address) => address.is_loopback(),
    });
    if !is_here {
        return Err(PlaceError::NotHere { path });
    }
    Ok(Some((path, description)))
}

/// Whether the file belongs to the caller and is closed to others, as `dev` makes it.
fn is_own(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| {
        file.is_file() && file.uid() == nix::unistd::geteuid().as_raw() && file.mode() & 0o077 == 0
    })
}

fn api_url(text: &str, origin: &Source) -> Result<Url, PlaceError> {
    let origin = || origin.clone();
    let shown = || sched_runtime::config::redact::words(text);
    let url =
        Url::parse(text).map_err(|source| PlaceError::NotAUrl { text: shown(), origin: origin(), source })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(PlaceError::NotHttp { text: shown(), origin: origin() });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(PlaceError::WithPassword { origin: origin() });
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    fn globals() -> Globals {
        Globals {
            api_url: None,
            api_key: None,
            api_key_file: None,
            data_dir: None,
            output: Format::Table,
            watch: None,
        }
    }

    fn describe(dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        let description = Description {
            api_url: "http://127.0.0.1:4321".into(),
            database_url: "postgresql://postgres@socket/sched".into(),
            processes: Vec::new(),
        };
        folder::write_description(dir, &description).unwrap();
    }

    #[test]
    fn a_flag_is_stronger_than_the_folder_and_the_folder_than_the_default() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(api(&globals(), &below).unwrap().source, Source::Default);
        describe(&root.path().join(DATA_DIR));
        let found = api(&globals(), &below).unwrap();
        assert_eq!(found.url.as_str(), "http://127.0.0.1:4321/");
        assert_eq!(found.source, Source::Dev(root.path().join(DATA_DIR).join("dev.toml")));
        let flag = Globals { api_url: Some("https://sched.example/base".into()), ..globals() };
        assert_eq!(api(&flag, &below).unwrap().url.as_str(), "https://sched.example/base");
    }

    #[test]
    fn the_key_of_dev_goes_to_dev_alone_and_only_from_a_file_that_is_closed_to_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        describe(&root.path().join(DATA_DIR));
        let file = root.path().join(DATA_DIR).join("api.key");
        let key = |globals: &Globals| {
            let place = api(globals, root.path()).map_err(|error| error.to_string())?;
            Ok::<_, String>(place.key.map(|key| key.expose_secret().to_owned()))
        };
        assert_eq!(key(&globals()).unwrap(), None);
        std::fs::write(&file, "of-dev\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(key(&globals()).unwrap_err().contains("key"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(key(&globals()).unwrap().as_deref(), Some("of-dev"));
        let elsewhere = Globals { api_url: Some("http://127.0.0.1:9".into()), ..globals() };
        assert_eq!(key(&elsewhere).unwrap(), None);
        let named = Globals { api_key_file: Some(file), ..elsewhere };
        assert_eq!(key(&named).unwrap().as_deref(), Some("of-dev"));
        let given = Globals { api_key: Some("own".into()), ..named };
        assert_eq!(key(&given).unwrap().as_deref(), Some("own"));
    }

    #[test]
    fn a_folder_that_was_come_upon_sends_no_key_to_strangers() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(DATA_DIR);
        describe(&dir);
        let with_key = Globals { api_key: Some("own".into()), ..globals() };
        assert!(api(&with_key, root.path()).is_ok());
        // As a copy of somebody's project would have it.
        let file = folder::description_of(&dir);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(api(&with_key, root.path()), Err(PlaceError::NotOwn { .. })));
        assert!(matches!(database(None, &with_key, root.path()), Err(PlaceError::NotOwn { .. })));
        let named = Globals { data_dir: Some(dir.clone()), ..with_key };
        assert!(api(&named, root.path()).is_ok(), "the folder was named");
        let text = std::fs::read_to_string(&file).unwrap().replace("127.0.0.1", "collector.example");
        std::fs::write(&file, text).unwrap();
        assert!(matches!(api(&named, root.path()), Err(PlaceError::NotHere { .. })));
    }

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        let root = tempfile::tempdir().unwrap();
        let empty = Globals { api_url: Some(" ".into()), api_key: Some(String::new()), ..globals() };
        let found = api(&empty, root.path()).unwrap();
        assert_eq!((found.source, found.key.is_none()), (Source::Default, true));
        assert!(matches!(database(Some(""), &globals(), root.path()), Err(PlaceError::NoDatabase)));
    }

    #[test]
    fn the_database_of_the_folder_is_used_when_none_is_named() {
        let root = tempfile::tempdir().unwrap();
        describe(&root.path().join("elsewhere"));
        let globals = Globals { data_dir: Some("elsewhere".into()), ..globals() };
        let (url, _) = database(None, &globals, root.path()).unwrap();
        assert_eq!(url, "postgresql://postgres@socket/sched");
        let (url, _) = database(Some("postgresql://other/db"), &globals, root.path()).unwrap();
        assert_eq!(url, "postgresql://other/db");
    }

    #[test]
    fn a_bad_address_is_refused_with_its_origin_and_without_its_password() {
        let root = tempfile::tempdir().unwrap();
        for (text, part) in [
            ("localhost:8080", "must start with http://"),
            ("not a url", "is not a URL"),
            ("ftp://host/", "must start with http://"),
            ("http://me:secret@host/", "--api-key"),
        ] {
            let given = Globals { api_url: Some(text.into()), ..globals() };
            let error = api(&given, root.path()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("SCHED_API_URL"), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
