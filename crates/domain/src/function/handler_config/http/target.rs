//! URL rules: the targets that a function may call, and the parts that a job's arguments may fill.
//!
//! Arguments reach only path and query, and never more than one path segment. Otherwise a user with
//! the right to trigger a job could choose its target. The worker checks the address itself when it
//! connects.

use url::Url;

use super::super::template::{Form, MissingValue, Template, TemplateValues};

/// In bytes, before and after filling in; common servers accept it.
pub(super) const MAX_URL_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Target {
    template: Template,
    sample: Url,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error(transparent)]
    Missing(#[from] MissingValue),
    #[error("the arguments result in a rejected URL: {reason}")]
    Refused { reason: String },
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        let is_bare = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if template.literals().any(|literal| literal.contains(is_bare)) {
            return Err("has blanks, control characters or backslashes; percent-encode them".into());
        }
        let beginning = template.literal_beginning();
        let (scheme, rest) = beginning.split_once("://").unwrap_or((beginning, ""));
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err("must begin with http:// or https://".into());
        }
        let authority_end = rest.find(['/', '?', '#']);
        if template.has_values() && authority_end.is_none() {
            return Err("scheme, host and port must be literal; values are allowed in path and query".into());
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() {
            return Err("has no host".into());
        }
        if authority.contains('@') {
            return Err("must not carry a user or a password; send a header from a secret".into());
        }
        let sample = template.sample(Form::Percent);
        let sample = read(&sample)?;
        Ok(Self { template, sample })
    }

    pub(super) fn url(&self, values: &TemplateValues<'_>) -> Result<Url, UrlError> {
        let refused = |reason: String| UrlError::Refused { reason };
        let url = read(&self.template.render(values, Form::Percent)?).map_err(refused)?;
        if url.origin() == self.sample.origin() {
            Ok(url)
        } else {
            Err(refused("scheme, host or port would change".into()))
        }
    }
}

fn read(text: &str) -> Result<Url, String> {
    if text.len() > MAX_URL_BYTES {
        return Err(format!("is longer than {MAX_URL_BYTES} bytes"));
    }
    if text.contains('#') {
        return Err("has a fragment, which is never sent".into());
    }
    // A URL parser would resolve such a segment, which changes the path.
    let path = text.split('?').next().unwrap_or_default();
    let is_dots =
        |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if path.split('/').any(is_dots) {
        return Err("has a path segment . or ..".into());
    }
    let url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
    if url.host().is_none() || !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https:// and a host".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not carry a user or a password; send a header from a secret".into());
    }
    if url.port() == Some(0) {
        return Err("has port 0; use a port from 1 to 65535".into());
    }
    Ok(url)
}
