//! The statements of the worker as scripts for pgbench: the text of the model, with parameters
//! filled in by pgbench.
//!
//! The answer of the claim becomes one row of arrays, which pgbench keeps for the completion. Only
//! the number of the other columns is sent, and the server creates constant arrays. Both save work
//! for pgbench that the worker has.

use anyhow::{Context, ensure};

const CLAIM: &str = concat!(
    include_str!("../../../../crates/model/src/running/claims/claim.sql"),
    include_str!("../../../../crates/model/src/running/claims/claim_end.sql")
);
const END: &str = include_str!("../../../../crates/model/src/running/attempts/attempts_end.sql");
const RELEASE: &str =
    include_str!("../../../../crates/model/src/running/attempts/attempts_release_claims.sql");

const RESULT: &str = "claim_id, dispatch_id, tenant_id, job_id, project_id, is_apart, job_name, token, attempt, retry_count, lost_count, scheduled_for, \
    created_at, available_at, claimed_at";

/// The values that pgbench keeps. The row of an empty claim contains no dispatch.
const KEPT: &str = "coalesce(min(claim_id), 0) AS claim, count(dispatch_id) AS n, \
    array_remove(array_agg(dispatch_id), NULL) AS ids, array_remove(array_agg(token), NULL) AS tokens, \
    array_remove(array_agg(claimed_at), NULL) AS started, count(job_name) AS named";

/// Another text for one `WITH` query of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacement {
    pub(super) query: &'static str,
    /// `None` removes the query; no other query may name it.
    pub(super) text: Option<&'static str>,
}

/// One claim of up to `batch` dispatches by `worker`, and their completion in one transaction.
pub(super) fn script(worker: &str, batch: usize) -> anyhow::Result<String> {
    script_with(worker, batch, &[])
}

/// [`script`] with other texts for some queries of the claim or the completion.
pub(super) fn script_with(
    worker: &str,
    batch: usize,
    replacements: &[Replacement],
) -> anyhow::Result<String> {
    let mut claim = filled(
        CLAIM,
        &[
            &format!("'{worker}'"),
            &batch.to_string(),
            "'{default}'",
            "'00000000-0000-7000-8000-000000000001'",
            "NULL",
        ],
    )?;
    let mut end = end()?;
    for replacement in replacements {
        let places =
            [&mut claim, &mut end].into_iter().filter(|text| begins_at(text, replacement.query).is_some());
        let text =
            places.last().with_context(|| format!("no statement has a query {}", replacement.query))?;
        *text = replaced(text, *replacement)?;
    }
    let position = last_select(&claim).context("the claim has no SELECT at its end")?;
    let (before, answer) = claim.split_at_checked(position).context("a SELECT begins at a character")?;
    let claim =
        format!("{},\nresult ({RESULT}) AS (\n{answer}\n)\nSELECT {KEPT} FROM result", before.trim_end());
    let release = filled(RELEASE, &["ARRAY[:claim::bigint]"])?;
    Ok(format!("{claim}\n\\gset\nBEGIN;\n{end};\n{release};\nCOMMIT;\n"))
}

fn end() -> anyhow::Result<String> {
    let same = |value: &str| format!("array_fill({value}, ARRAY[:n::integer])");
    filled(
        END,
        &[
            ":ids",
            ":tokens",
            &same("'COMPLETED'::text"),
            &same("0::bigint"),
            &same("false"),
            &same("'COMPLETED'::text"),
            // As cheap as the id of the worker: each dispatch has one attempt.
            ":ids",
            ":started",
            &same("0::bigint"),
            &same("NULL::integer"),
            &same("NULL::jsonb"),
            &same("NULL::text"),
            &same("NULL::text"),
            &same("0::bigint"),
            &same("NULL::uuid"),
            &same("false"),
            &same("true"),
            &same("'job'::text"),
            &same("NULL::text"),
            &same("NULL::jsonb"),
        ],
    )
}

/// The position of `query AS (` or `query AS MATERIALIZED (` at the beginning of a line.
fn begins_at(statement: &str, query: &str) -> Option<usize> {
    let starts = |line: &str| {
        let line = line.strip_prefix("WITH ").unwrap_or(line);
        line.strip_prefix(query).is_some_and(|rest| rest.starts_with(" AS ") || rest.starts_with(" ("))
    };
    let mut position = 0;
    for line in statement.split_inclusive('\n') {
        if starts(line) {
            return Some(position + line.find(query)?);
        }
        position += line.len();
    }
    None
}

/// The statement with another text for one of its queries, which must not be its last.
fn replaced(statement: &str, replacement: Replacement) -> anyhow::Result<String> {
    let query = replacement.query;
    let begin = begins_at(statement, query).with_context(|| format!("no query {query}"))?;
    let (before, rest) = statement.split_at_checked(begin).context("a query begins at a character")?;
    let body = rest.find(" AS ").with_context(|| format!("{query} has no body"))?;
    let mut depth = 0_i32;
    let mut quoted = false;
    for (position, character) in rest.char_indices().filter(|(position, _)| *position > body) {
        match character {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    let after = rest.get(position + 1..).unwrap_or_default();
                    return Ok(match replacement.text {
                        Some(text) => format!("{before}{query} AS ({text}){after}"),
                        None if after.starts_with(',') => {
                            format!("{before}{}", after.trim_start_matches(','))
                        }
                        // The last query: the comma is before it.
                        None => format!("{}{after}", before.trim_end().trim_end_matches(',')),
                    });
                }
            }
            _ => {}
        }
    }
    anyhow::bail!("the query {query} does not end")
}

fn filled(statement: &str, values: &[&str]) -> anyhow::Result<String> {
    let mut text: String = statement
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    for (position, value) in values.iter().enumerate().rev() {
        let placeholder = format!("${}", position + 1);
        ensure!(
            text.matches(&placeholder).count() == 1,
            "{placeholder} does not occur exactly once in: {text}"
        );
        text = text.replace(&placeholder, value);
    }
    ensure!(!text.contains('$'), "the statement has unknown parameters: {text}");
    Ok(text.trim().trim_end_matches(';').to_owned())
}

fn last_select(statement: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut found) = (0_i32, false, None);
    for (position, character) in statement.char_indices() {
        match character {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            'S' if !quoted
                && depth == 0
                && statement.get(position..).is_some_and(|rest| rest.starts_with("SELECT")) =>
            {
                found = Some(position);
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_filled_in_and_comments_removed() {
        let text = filled("-- a ($1)\nSELECT $1, $2 -- b\n, $10x", &["a", "b"]);
        assert!(text.is_err(), "a third parameter is an error");
        let text = filled("-- a ($1)\nSELECT $2, $1 -- b", &["'a'", ":b"]).expect("two parameters");
        assert_eq!(text, "SELECT :b, 'a'");
    }

    #[test]
    fn last_select_is_found_outside_of_parentheses_and_quotes() {
        let text = "WITH a AS (SELECT 1) SELECT ')SELECT', (SELECT 2) FROM a";
        assert_eq!(last_select(text), text.find("SELECT ')"));
        assert_eq!(last_select("(SELECT 1)"), None);
    }

    #[test]
    fn query_is_replaced_or_removed() {
        let statement =
            "WITH a AS (\n SELECT ')'\n),\nb AS MATERIALIZED (SELECT (1)),\nc AS (SELECT 3)\nSELECT 4";
        let with = |query, text| replaced(statement, Replacement { query, text }).expect("a query");
        assert!(with("a", Some("SELECT 9")).starts_with("WITH a AS (SELECT 9),\nb AS"));
        assert!(with("b", None).contains("),\n\nc AS (SELECT 3)\nSELECT 4"), "{}", with("b", None));
        assert!(with("c", None).ends_with("(SELECT (1))\nSELECT 4"), "{}", with("c", None));
        assert!(replaced(statement, Replacement { query: "d", text: None }).is_err());
    }

    #[test]
    fn statements_of_the_model_become_a_script() {
        let script = script("00000000-0000-7000-9000-000000000009", 500).expect("a script");
        assert!(!script.contains('$'), "{script}");
        assert_eq!(script.matches("\\gset").count(), 1, "{script}");
        assert!(script.contains("result (claim_id"), "{script}");
    }
}
