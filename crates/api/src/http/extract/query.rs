//! Query parameters.
//!
//! An unknown parameter is rejected, so that a misspelt filter does not list everything. A repeated
//! one is rejected as ambiguous.

use std::collections::HashSet;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use sched_wire::plain_error;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use crate::error::ApiError;

#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

/// No query parameter, or no field of a body.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(parse(request.query_string()).map(Self))
    }
}

pub(crate) fn no_parameters(query: &str) -> Result<(), ApiError> {
    parse(query).map(|NoParameters {}| ())
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let pairs = || form_urlencoded::parse(query.as_bytes());
    // Invalid UTF-8 would be replaced, so the API would serve another request than the client sent.
    if let Some((_, (name, _))) =
        query.split('&').filter(|pair| !pair.is_empty()).zip(pairs()).find(|(raw, _)| !is_text(raw))
    {
        return Err(ApiError::parameter(&name, "is not in UTF-8"));
    }
    if let Some((name, _)) = pairs().find(|(name, value)| name.contains('\0') || value.contains('\0')) {
        return Err(ApiError::parameter(&name, "contains a NUL character"));
    }
    let mut seen = HashSet::new();
    if let Some((name, _)) = pairs().find(|(name, _)| !seen.insert(name.clone())) {
        return Err(ApiError::parameter(&name, "occurs twice"));
    }
    let source = serde_urlencoded::Deserializer::new(pairs());
    serde_path_to_error::deserialize(source).map_err(|error| {
        let name = error.path().to_string();
        let plain = plain_error(&error.into_inner().to_string());
        ApiError::parameter(plain.missing.as_deref().unwrap_or(&name), plain.message)
    })
}

fn is_text(raw: &str) -> bool {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|digits| {
            let digits = str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    str::from_utf8(&bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use sched_wire::{RunFilter, RunsQuery};

    use super::*;

    #[test]
    fn parameters_are_read_by_name() {
        let query: RunsQuery = parse("job=a%2Fb&status=waiting&limit=5").unwrap();
        assert_eq!((query.job.as_deref(), query.limit), (Some("a/b"), Some(5)));
        assert_eq!(query.status, Some(RunFilter::Waiting));
        assert_eq!(parse::<RunsQuery>("status=Dead_Letter").unwrap().status, Some(RunFilter::DeadLetter));
        let odd: RunsQuery = parse("job=%E2%82%AC%zz%+1%25ff+%EF%BF%BD%").unwrap();
        assert_eq!(odd.job.as_deref(), Some("\u{20ac}%zz% 1%ff \u{fffd}%"));
        assert_eq!(parse::<RunsQuery>("").unwrap(), RunsQuery::default());
    }

    #[test]
    fn mistakes_name_the_parameter() {
        for (query, name, text) in [
            ("statu=PENDING", "statu", "status"),
            ("status=PENDING", "status", "running"),
            ("limit=ten", "limit", "whole number"),
            ("limit=-1", "limit", "whole number"),
            ("job=a&job=b", "job", "twice"),
            ("job=a%00", "job", "NUL"),
            ("limit=5&&job=a%ffb", "job", "UTF-8"),
            ("job=%C3%28", "job", "UTF-8"),
            ("job=%E2%82", "job", "UTF-8"),
        ] {
            let Err(ApiError::Parameters(mistakes)) = parse::<RunsQuery>(query) else { panic!("{query}") };
            assert_eq!(mistakes[0].pointer, name, "{query}: {}", mistakes[0].message);
            assert!(mistakes[0].message.contains(text), "{query}: {}", mistakes[0].message);
        }
        assert!(no_parameters("x=1").is_err() && no_parameters("").is_ok());
    }
}
