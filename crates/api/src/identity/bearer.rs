//! The bearer token (RFC 6750), from the header only: a token in the path or the parameters would
//! be in logs. Pure.

use actix_web::http::header::{AUTHORIZATION, HeaderMap};

use crate::error::ApiError;

/// In bytes.
const LONGEST: usize = 8 * 1024;

/// A request must have exactly one.
pub(super) fn token(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(AUTHORIZATION);
    let wrong = |message: &str| ApiError::Unauthenticated(Some(message.to_owned()));
    let (Some(value), rest) = (values.next(), values.next()) else {
        return Err(ApiError::Unauthenticated(None));
    };
    if rest.is_some() {
        return Err(wrong("the request has two Authorization headers; send one"));
    }
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or_default();
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.len() > LONGEST {
        return Err(wrong("the header Authorization must be: Bearer, a space, and an API key"));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn exactly_one_bearer_token_is_accepted() {
        let long = format!("Bearer {}", "x".repeat(LONGEST + 1));
        for (values, expected) in [
            (&["Bearer abc"][..], Some("abc")),
            (&["bearer  abc "], Some("abc")),
            (&[], None),
            (&["abc"], None),
            (&["Bearer"], None),
            (&["Bearer "], None),
            (&["Basic abc"], None),
            (&["Bearer abc", "Bearer abc"], None),
            (&[&long], None),
        ] {
            let request = values
                .iter()
                .fold(TestRequest::get(), |request, value| request.append_header((AUTHORIZATION, *value)))
                .to_http_request();
            assert_eq!(token(request.headers()).ok(), expected, "{values:?}");
        }
    }
}
