//! Suggests existing names for unknown ones. The list of names costs one more request, only after
//! an error.

use sched_runtime::exit::ExitError;
use sched_wire::{PageQuery, Problem};
use serde::Deserialize;

use super::Session;
use crate::api::{Api, ApiError};
use crate::suggest::closest;

const MOST: usize = 1000;

const LISTS: [(&str, &str); 9] = [
    ("notification channel", "notification-channels"),
    ("task function", "functions"),
    ("function", "functions"),
    ("template", "templates"),
    ("calendar", "calendars"),
    ("project", "projects"),
    ("secret", "secrets"),
    ("queue", "queues"),
    ("job", "jobs"),
];

const MEANT: &str = ", did you mean ";

#[derive(Debug, Deserialize)]
struct NamedItem {
    name: String,
}

pub(super) async fn in_error(api: &Api, error: ApiError) -> ApiError {
    let ApiError::Refused(mut problem) = error else { return error };
    in_problem(api, &mut problem).await;
    ApiError::Refused(problem)
}

pub(crate) async fn in_failure(error: ExitError, session: &Session) -> ExitError {
    let checked = match error.source().downcast_ref::<ApiError>() {
        Some(ApiError::Refused(problem)) => problem.clone(),
        _ => return error,
    };
    match session.api() {
        Ok(api) => in_error(&api, ApiError::Refused(checked)).await.into(),
        Err(_) => error,
    }
}

async fn in_problem(api: &Api, problem: &mut Problem) {
    let mut texts = vec![problem.detail.clone()];
    texts.extend(problem.errors.iter().map(|error| error.message.clone()));
    texts.sort();
    texts.dedup();
    let mut checked: Vec<String> = Vec::new();
    for text in texts {
        let Some((list, name, end)) = missing(&text) else { continue };
        if text.get(end..).is_some_and(|rest| rest.starts_with(MEANT)) {
            continue;
        }
        let phrase = text.get(..end).unwrap_or_default().to_owned();
        let phrase =
            phrase.rfind("there is no ").and_then(|start| phrase.get(start..)).unwrap_or_default().to_owned();
        if checked.contains(&phrase) {
            continue;
        }
        let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
        let Ok(names) = api.list::<NamedItem, _>(&[list], MOST, query).await else { return };
        let Some(meant) = closest(&name, names.items.iter().map(|one| one.name.as_str())) else { continue };
        let with = format!("{phrase}{MEANT}{meant:?}?");
        problem.detail = problem.detail.replace(&phrase, &with);
        for error in &mut problem.errors {
            error.message = error.message.replace(&phrase, &with);
        }
        checked.push(phrase);
    }
}

/// In `there is no queue named "mial"`.
fn missing(text: &str) -> Option<(&'static str, String, usize)> {
    let start = text.find("there is no ")? + "there is no ".len();
    let rest = text.get(start..)?;
    let (kind, list) = LISTS.into_iter().find(|(kind, _)| rest.starts_with(kind))?;
    let after = rest.get(kind.len()..)?;
    let after = after.strip_prefix(" named").unwrap_or(after).strip_prefix(' ')?;
    let mut names = serde_json::Deserializer::from_str(after).into_iter::<String>();
    let name = names.next()?.ok()?;
    let end = text.len() - after.len() + names.byte_offset();
    Some((list, name, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_found_in_what_the_api_says() {
        for (text, found) in [
            (r#"there is no job "nightyl""#, Some(("jobs", "nightyl", 25))),
            (r#"there is no queue named "mial"; x"#, Some(("queues", "mial", 30))),
            (r#"/function: there is no task function named "a\"b""#, Some(("functions", "a\"b", 49))),
            ("there is no such key", None),
            ("there is no job named nightly", None),
            ("it is paused", None),
        ] {
            let found = found.map(|(list, name, end)| (list, name.to_owned(), end));
            assert_eq!(missing(text), found, "{text}");
        }
    }
}
