//! Redaction of secrets in text for users: in the configuration's output, and of logged addresses
//! ([`url()`]). Unparsable text is hidden.

use super::setting::Sensitivity;

const HIDDEN: &str = "[redacted]";
/// Brackets inside a URL would read as an address.
const HIDDEN_PART: &str = "***";

#[must_use]
pub fn value(value: &str, sensitivity: Sensitivity) -> String {
    match sensitivity {
        // Any address may contain a password.
        Sensitivity::Public if value.contains("://") => url(value),
        Sensitivity::Public => value.to_owned(),
        Sensitivity::SecretUrl => url(value),
        Sensitivity::Secret => HIDDEN.to_owned(),
    }
}

/// A URL without its passwords; other parts stay readable.
///
/// The URL may be invalid and have several hosts. Text without `://` is hidden: it may be a
/// `key=value` connection string or a password in the wrong place.
#[must_use]
pub fn url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    // The last `@` ends the user part even if the password contains an unescaped `@`, `/` or `?`.
    // An `@` in a parameter hides the host too, which is safe.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => match credentials.split_once(':') {
            Some((user, _)) => (format!("{user}:{HIDDEN_PART}@"), rest),
            None => (format!("{credentials}@"), rest),
        },
        None => (String::new(), rest),
    };
    let rest = match rest.split_once('?') {
        Some((path, query)) => {
            format!("{path}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
        }
        None => rest.to_owned(),
    };
    format!("{scheme}://{user}{rest}")
}

#[must_use]
pub fn free_text(text: &str) -> String {
    let ends_word = |c: char| c.is_whitespace() || c == '\'' || c == '"';
    let shown = text.split_inclusive(ends_word).map(|piece| {
        let word = piece.trim_end_matches(ends_word);
        if word.contains("://") {
            format!("{}{}", url(word), piece.trim_start_matches(word))
        } else {
            piece.to_owned()
        }
    });
    shown.collect()
}

fn parameter(parameter: &str) -> String {
    let Some((key, _)) = parameter.split_once('=') else { return parameter.to_owned() };
    let lower = key.to_ascii_lowercase();
    // An escape inside a key may encode any of these words.
    let secret = ["pass", "secret", "token", "key", "%"].iter().any(|word| lower.contains(word));
    // `sslkey` is a file name, useful for diagnosis.
    if secret && lower != "sslkey" { format!("{key}={HIDDEN_PART}") } else { parameter.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_survives_and_the_rest_does() {
        for (given, shown) in [
            ("postgresql://app:s3cret@db:5432/sched", "postgresql://app:***@db:5432/sched"),
            ("postgresql://app@db/sched", "postgresql://app@db/sched"),
            ("postgresql://db/sched", "postgresql://db/sched"),
            (
                "postgresql://a:p@h1:5432,h2:5433/db?sslmode=require",
                "postgresql://a:***@h1:5432,h2:5433/db?sslmode=require",
            ),
            ("postgresql://a:p@ss@db/x", "postgresql://a:***@db/x"),
            ("postgresql://a:p/s?s@db/x", "postgresql://a:***@db/x"),
            ("postgresql://a:p:q@db/x", "postgresql://a:***@db/x"),
            ("postgresql://db/x?user=a&password=s3cret", "postgresql://db/x?user=a&password=***"),
            ("postgresql://db/x?PassWord=s3cret&sslkey=/k", "postgresql://db/x?PassWord=***&sslkey=/k"),
            ("postgresql://db/x?pass%77ord=s3cret", "postgresql://db/x?pass%77ord=***"),
            ("postgresql:///x?host=/run/pg", "postgresql:///x?host=/run/pg"),
            ("host=db password=s3cret", "[redacted]"),
            ("s3cret", "[redacted]"),
            ("", "[redacted]"),
        ] {
            assert_eq!(url(given), shown, "{given}");
        }
    }

    #[test]
    fn urls_inside_a_sentence_lose_their_passwords() {
        let text = "unexpected argument 'postgres://a:b@h/x' found\nsee more";
        assert_eq!(free_text(text), "unexpected argument 'postgres://a:***@h/x' found\nsee more");
    }

    #[test]
    fn what_is_shown_depends_on_the_setting() {
        assert_eq!(value("10s", Sensitivity::Public), "10s");
        assert_eq!(value("http://a:b@host/", Sensitivity::Public), "http://a:***@host/");
        assert_eq!(value("http://a:b@host/", Sensitivity::Secret), "[redacted]");
    }
}
