//! Selects the API and the database: flags and variables, then the description of a running
//! `schedctl dev`, then the default address.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sched_runtime::private_file::{self, PrivateFileError};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::globals::Globals;
use crate::local_install::{self, Description, FolderError};

const DEFAULT_API: &str = "http://127.0.0.1:8080";

pub(crate) const DATA_DIR: &str = ".sched";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Given(&'static str),
    Dev(PathBuf),
    Default,
}

impl Source {
    /// The description, if that is the origin.
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

#[derive(Debug, Clone)]
pub(crate) struct ApiPlace {
    pub(crate) url: Url,
    pub(crate) key: Option<SecretString>,
    pub(crate) source: Source,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("the URL of the API {text:?} (from {origin}) is not a URL such as {DEFAULT_API}")]
    NotAUrl {
        text: String,
        origin: Source,
        #[source]
        source: url::ParseError,
    },
    #[error("the API address {text:?} (from {origin}) must start with http:// or https:// and name a host")]
    NotHttp { text: String, origin: Source },
    /// A password in a URL would appear in logs.
    #[error(
        "the URL of the API (from {origin}) must not contain a user or password; set the key with --api-key"
    )]
    WithPassword { origin: Source },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("the API key cannot be read from its file")]
    KeyFile(#[from] PrivateFileError),
    /// Another user with this directory could redirect keys and passwords.
    #[error(
        "{} describes a `schedctl dev`, but is not a private file of yours; set --api-url, or \
         --data-dir if you trust it", .path.display()
    )]
    NotOwn { path: PathBuf },
    /// `dev` listens only on loopback, so it did not write this description.
    #[error("{} has the URL of an API on another machine, which `schedctl dev` never writes; set --api-url", .path.display())]
    NotHere { path: PathBuf },
    #[error("no database is configured: set --database-url or DATABASE_URL, or start `schedctl dev`")]
    NoDatabase,
}

pub(crate) fn api(globals: &Globals, here: &Path) -> Result<ApiPlace, PlaceError> {
    let (text, source) = match non_empty(globals.api_url.as_deref()) {
        Some(text) => (text.to_owned(), Source::Given("--api-url or SCHED_API_URL")),
        None => match described(globals, here)? {
            Some((path, description)) => (description.api_url, Source::Dev(path)),
            None => (DEFAULT_API.to_owned(), Source::Default),
        },
    };
    let key = match non_empty(globals.api_key.as_deref()) {
        Some(key) => Some(SecretString::from(key.to_owned())),
        None => match (key_file(globals), &source) {
            (Some(path), _) => Some(read_key(&here.join(path))?),
            // The key of `dev` is sent only to the API of `dev`.
            (None, Source::Dev(description)) => {
                let path = local_install::api_key_beside(description);
                path.exists().then(|| read_key(&path)).transpose()?
            }
            (None, Source::Given(_) | Source::Default) => None,
        },
    };
    Ok(ApiPlace { url: api_url(&text, &source)?, key, source })
}

pub(crate) fn database(
    url: Option<&str>,
    globals: &Globals,
    here: &Path,
) -> Result<(String, Source), PlaceError> {
    if let Some(url) = non_empty(url) {
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

/// The file must have access only for its owner.
fn read_key(path: &Path) -> Result<SecretString, PlaceError> {
    let text = private_file::read(path)?;
    Ok(text.expose_secret().trim().to_owned().into())
}

/// An empty variable counts as unset.
fn non_empty(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Without a given directory, reads the nearest description in this directory or its parents. That
/// directory may belong to any user, as in `/tmp`, so the file must belong to the caller.
fn described(globals: &Globals, here: &Path) -> Result<Option<(PathBuf, Description)>, PlaceError> {
    let named = globals.data_dir.as_deref().filter(|dir| !dir.as_os_str().is_empty());
    let folder = match named {
        Some(dir) => Some(here.join(dir)),
        None => here
            .ancestors()
            .map(|dir| dir.join(DATA_DIR))
            .find(|dir| local_install::description_of(dir).is_file()),
    };
    let Some(path) = folder.map(|dir| local_install::description_of(&dir)) else { return Ok(None) };
    if named.is_none() && !is_own(&path) {
        return Err(PlaceError::NotOwn { path });
    }
    let Some(description) = local_install::read_description(&path)? else { return Ok(None) };
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

/// The file must also be closed to other users, as `dev` creates it.
fn is_own(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| {
        file.is_file() && file.uid() == nix::unistd::geteuid().as_raw() && file.mode() & 0o077 == 0
    })
}

fn api_url(text: &str, origin: &Source) -> Result<Url, PlaceError> {
    let origin = || origin.clone();
    let shown = || sched_runtime::config::redact::free_text(text);
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
        local_install::write_description(dir, &description).unwrap();
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
        // As in a copy of another user's project.
        let file = local_install::description_of(&dir);
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
