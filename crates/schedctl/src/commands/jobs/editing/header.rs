//! The comment with the error on top of an edited text. Pure.

/// Begins each line of the comment, which the next error replaces.
const MARK: &str = "#! ";
const ADVICE: &str = "Correct the text and save it, or close the editor without a change to give up.";

/// The text with a comment about its error. `error` returns the error of a text; it is read from the
/// text below a comment of the final height, so that its line numbers are right.
pub(super) fn with_error(text: &str, mut error: impl FnMut(&str) -> String) -> String {
    let body = without(text);
    let height = comment(&error(body)).lines().count();
    let padded = format!("{}{body}", format!("{MARK}\n").repeat(height));
    format!("{}{body}", comment(&error(&padded)))
}

fn comment(error: &str) -> String {
    error.lines().chain([ADVICE]).map(|line| format!("{MARK}{line}\n")).collect()
}

fn without(text: &str) -> &str {
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        if !line.starts_with(MARK.trim_end()) {
            break;
        }
        rest = after;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        let line = text.lines().position(|line| line == "bad").unwrap() + 1;
        format!("the text is not valid:\n  job.yaml:{line}:1: bad")
    }

    #[test]
    fn error_is_on_top_with_the_line_of_the_shown_text() {
        let shown = with_error("name: a\nbad\n", mistake);
        assert_eq!(
            shown,
            format!("#! the text is not valid:\n#!   job.yaml:5:1: bad\n#! {ADVICE}\nname: a\nbad\n")
        );
        let again = with_error(&shown, mistake);
        assert_eq!(again, shown, "the comment is replaced");
        assert_eq!(without(&shown), "name: a\nbad\n");
    }
}
