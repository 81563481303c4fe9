//! The connection string for `pg_dump`: the database URL in libpq's format, without the password.
//!
//! libpq verifies certificates only on request. So a URL that requires TLS gets `verify-full`.

use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};

use crate::handlers::native::HandlerError;

const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

#[derive(Debug)]
pub(super) struct Connection {
    /// Without its password.
    pub(super) url: String,
    pub(super) password: Option<SecretString>,
}

impl Connection {
    /// `ca_file` is added to the certificates of the system.
    pub(super) fn of(url: &SecretString, ca_file: Option<&Path>) -> Result<Self, HandlerError> {
        let url = url.expose_secret();
        let refused = || {
            let text = "DATABASE_URL must have the form postgresql://user@host/database for pg_dump";
            HandlerError::new("unusable_url", text).no_retry()
        };
        let (scheme, rest) = SCHEMES
            .iter()
            .find_map(|scheme| Some((*scheme, url.strip_prefix(scheme)?)))
            .ok_or_else(refused)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user, None),
        };
        let mut password = password.map(str::to_owned);
        let mut options = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').unwrap_or((option, "")) {
                ("password", value) => password = Some(value.to_owned()),
                ("sslmode", "require" | "verify-ca" | "verify-full") => {
                    let root =
                        ca_file.map_or_else(|| "system".to_owned(), |path| encoded(&path.to_string_lossy()));
                    options.extend(["sslmode=verify-full".to_owned(), format!("sslrootcert={root}")]);
                }
                _ => options.push(option.to_owned()),
            }
        }
        let at = if user.is_empty() { "" } else { "@" };
        let question = if options.is_empty() { "" } else { "?" };
        let url = format!("{scheme}{user}{at}{hosts}/{path}{question}{}", options.join("&"));
        let password = password.map(|text| decoded(&text).map(SecretString::from).ok_or_else(refused));
        Ok(Self { url, password: password.transpose()? })
    }
}

fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let piece = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(piece).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (escape, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(escape, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(url: &str, ca_file: Option<&str>) -> (String, Option<String>) {
        let connection = Connection::of(&url.into(), ca_file.map(Path::new)).unwrap();
        (connection.url, connection.password.map(|password| password.expose_secret().to_owned()))
    }

    #[test]
    fn password_is_removed_from_the_url() {
        let with = |url: &str, password: &str| (url.to_owned(), Some(password.to_owned()));
        for (url, expected) in [
            ("postgresql://a:b@h:1/d", with("postgresql://a@h:1/d", "b")),
            ("postgres://a:p%40%2Fx@h1:1,h2:2/d?x=1", with("postgres://a@h1:1,h2:2/d?x=1", "p@/x")),
            ("postgresql://h/d?user=a&password=b%20c", with("postgresql://h/d?user=a", "b c")),
            ("postgresql:///d?host=/run", ("postgresql:///d?host=/run".to_owned(), None)),
            ("postgresql://a@h", ("postgresql://a@h/".to_owned(), None)),
        ] {
            assert_eq!(connection(url, None), expected, "{url}");
        }
    }

    #[test]
    fn tls_url_requires_verify_full() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgresql://a@h/d?sslmode={mode}&application_name=x");
            let system = "postgresql://a@h/d?sslmode=verify-full&sslrootcert=system&application_name=x";
            assert_eq!(connection(&url, None).0, system);
            let own =
                "postgresql://a@h/d?sslmode=verify-full&sslrootcert=/etc/my%20ca.pem&application_name=x";
            assert_eq!(connection(&url, Some("/etc/my ca.pem")).0, own);
        }
    }

    #[test]
    fn invalid_url_is_rejected_without_repeating_it() {
        for wrong in ["host=h password=secret", "postgresql://a:b%zz@secret/d", "postgresql://a:b%4@secret/d"]
        {
            let text = Connection::of(&wrong.into(), None).unwrap_err().to_string();
            assert!(text.contains("DATABASE_URL") && !text.contains("secret"), "{text}");
        }
    }
}
