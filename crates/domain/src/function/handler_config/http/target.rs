//! URL rules: the targets that a function may call, and the parts that a job's arguments may fill.
//!
//! Arguments in path and query never change the target, and never fill more than one path segment.
//! Otherwise a user with the right to trigger a job could choose its target. Where the author puts
//! arguments into the host, the worker calls only targets that its operator lists. The worker checks
//! the address itself when it connects.

use url::Url;

use super::super::template::{Form, MissingValue, Template, TemplateValues};

/// In bytes, before and after filling in; common servers accept it.
pub(super) const MAX_URL_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Target {
    template: Template,
    sample: Url,
    has_variable_host: bool,
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
        let has_variable_host = template.has_values() && authority_end.is_none();
        if has_variable_host && !host_values_are_labels(text) {
            return Err("a value in the host must be the whole host or whole labels of it, and the port must be literal".into());
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() && !has_variable_host {
            return Err("has no host".into());
        }
        if authority.contains('@') {
            return Err("must not carry a user or a password; send a header from a secret".into());
        }
        let sample = template.sample(Form::Percent);
        let sample = read(&sample)?;
        Ok(Self { template, sample, has_variable_host })
    }

    pub(super) fn has_variable_host(&self) -> bool {
        self.has_variable_host
    }

    pub(super) fn url(&self, values: &TemplateValues<'_>) -> Result<Url, UrlError> {
        let refused = |reason: String| UrlError::Refused { reason };
        let text = self.template.render(values, Form::Percent)?;
        if self.has_variable_host && has_empty_label(&text) {
            return Err(refused("the host is empty or has an empty label".into()));
        }
        let url = read(&text).map_err(refused)?;
        let is_unchanged = if self.has_variable_host {
            // Percent-encoded values cannot end the host.
            url.scheme() == self.sample.scheme() && url.port() == self.sample.port()
        } else {
            url.origin() == self.sample.origin()
        };
        if is_unchanged { Ok(url) } else { Err(refused("scheme, host or port would change".into())) }
    }
}

/// Otherwise a value behind a forgotten slash would extend the host.
fn host_values_are_labels(text: &str) -> bool {
    let (_, mut rest) = text.split_once("://").unwrap_or_default();
    let mut is_first = true;
    while let Some((literal, after)) = rest.split_once("{{") {
        if literal.contains(['/', '?', '#']) {
            return true;
        }
        let begins_label = literal.ends_with('.') || (is_first && literal.is_empty());
        let Some((_, tail)) = after.split_once("}}") else { return false };
        if !begins_label || !(tail.is_empty() || tail.starts_with(['.', ':', '/', '?', '#'])) {
            return false;
        }
        (rest, is_first) = (tail, false);
    }
    true
}

fn has_empty_label(text: &str) -> bool {
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
    host.is_empty() || host.starts_with('.') || host.contains("..")
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
