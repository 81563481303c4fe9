//! Messages about jobs files in the terms of their author. Pure.

use sched_wire::plain_error;

use crate::suggest;

pub(super) const ANSWER: &str = "this is an answer of the API, as `-o yaml` prints it; `schedctl export` prints a jobs file for \
                                 `schedctl jobs apply` (for some jobs with `--prefix NAME`)";

/// An answer has one resource or a list.
pub(super) fn is_answer(has: impl Fn(&str) -> bool) -> bool {
    (has("id") && has("created_at")) || (has("items") && has("next_cursor"))
}

/// Also extracts the missing field, if that is the error.
pub(super) fn plain_message(message: &str) -> (Option<String>, String) {
    if let Some((field, known)) = unknown(message) {
        return (None, suggest::unknown_field(field, &known));
    }
    let told = plain_error(message);
    (told.missing, told.message)
}

fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    let (field, known) = message.strip_prefix("unknown field `")?.split_once("`, expected ")?;
    // Every second part is between backquotes.
    Some((field, known.split('`').skip(1).step_by(2).collect()))
}
