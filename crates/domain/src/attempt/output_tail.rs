//! The last lines of the output of an attempt, for people in messages. Pure.

/// In characters.
pub const LONGEST: usize = 2_000;
const MOST_LINES: usize = 20;

/// The last lines of a text without control characters; `None` if nothing visible is left.
#[must_use]
pub fn output_tail(text: &str) -> Option<String> {
    let text = without_controls(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let last = lines.get(lines.len().saturating_sub(MOST_LINES)..).unwrap_or_default().join("\n");
    let excess = last.chars().count().saturating_sub(LONGEST);
    let tail: String = last.chars().skip(excess).collect();
    let tail = if excess > 0 { format!("…{tail}") } else { tail };
    let tail = tail.trim();
    (!tail.is_empty()).then(|| tail.to_owned())
}

/// Removes colours and other sequences of terminals.
fn without_controls(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            // CSI, up to its final byte.
            '\u{1b}' if rest.as_str().starts_with('[') => {
                rest.next();
                let _final = rest.find(|c| ('@'..='~').contains(c));
            }
            '\n' | '\t' => plain.push(c),
            '\r' if !rest.as_str().starts_with('\n') => plain.push('\n'),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_shown_without_colours() {
        for (text, expected) in [
            ("", None),
            (" \n\n", None),
            ("FATAL: database \"x\" does not exist\n", Some("FATAL: database \"x\" does not exist")),
            ("\u{1b}[1;31merror\u{1b}[0m\r\nhelp\u{7}", Some("error\nhelp")),
            ("10%\r50%\r100%", Some("10%\n50%\n100%")),
        ] {
            assert_eq!(output_tail(text).as_deref(), expected, "{text:?}");
        }
        let lines: Vec<String> = (1..=50).map(|number| format!("line {number}")).collect();
        let tail = output_tail(&lines.join("\n")).unwrap();
        assert!(tail.starts_with("line 31\n") && tail.ends_with("\nline 50"), "{tail}");
    }

    #[test]
    fn long_line_is_cut_at_its_beginning() {
        let tail = output_tail(&format!("{}end", "ä".repeat(3_000))).unwrap();
        assert!(tail.starts_with('…') && tail.ends_with("end"), "{tail}");
        assert!(tail.chars().count() <= LONGEST + 1);
    }
}
