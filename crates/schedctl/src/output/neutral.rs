//! Makes foreign text safe for a terminal.
//!
//! An escape sequence could recolour, overwrite or answer for the terminal; a bidirectional mark
//! could disguise a name. Such characters are shown as escapes. Pure.

use std::borrow::Cow;

/// Escapes line breaks and tabs too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Keeps lines and tabs; removes a carriage return before a line break.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    let keep = |c| matches!(c, '\n' | '\t');
    if text.contains("\r\n") {
        Cow::Owned(escape(&text.replace("\r\n", "\n"), keep).into_owned())
    } else {
        escape(text, keep)
    }
}

/// The strings keep their meaning.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_dangerous(c) && c != '\n') {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // The serialiser has escaped everything below the space; its own line breaks are layout.
        // Other dangerous characters are in strings and fit one code unit.
        if is_dangerous(c) && c != '\n' {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_dangerous(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_dangerous(c) && !keep(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Control characters of both sets, bidirectional marks, and invisible line breaks.
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_direction_marks_are_shown_instead_of_obeyed() {
        for (given, shown) in [
            ("plain näme 中 👩‍🔬", "plain näme 中 👩‍🔬"),
            ("\u{1b}[31mred\u{1b}]0;title\u{7}", "\\u{1b}[31mred\\u{1b}]0;title\\u{7}"),
            ("a\u{9b}2Jb\u{7f}", "a\\u{9b}2Jb\\u{7f}"),
            ("two\nlines\tand\rmore", "two\\nlines\\tand\\rmore"),
            ("evil\u{202e}gpj.exe", "evil\\u{202e}gpj.exe"),
        ] {
            assert_eq!(line(given), shown);
        }
    }

    #[test]
    fn a_block_keeps_its_lines_but_cannot_overwrite_them() {
        assert_eq!(block("a\tb\r\nc\n"), "a\tb\nc\n");
        assert_eq!(block("ok\rnot ok\u{8}\n"), "ok\\rnot ok\\u{8}\n");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a": "\u{1b}[2J\u{9b}2J\u{202e}\u{7f}\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let safe = json(&text);
        assert!(!safe.chars().any(|c| is_dangerous(c) && c != '\n'), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
