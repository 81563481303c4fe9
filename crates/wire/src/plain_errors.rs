//! Translates error messages of serde and of parsers into the terms of the client.
//!
//! The parsers name Rust types and digits; clients know texts, whole numbers, objects and lists. An
//! unknown message stays as it is.

/// A plain message about a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainError {
    /// Name of the missing field, if the message is about one.
    pub missing: Option<String>,
    /// The message.
    pub message: String,
}

/// Translates a message of a parser into plain words.
#[must_use]
pub fn plain_error(message: &str) -> PlainError {
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return PlainError { missing: Some(field.to_owned()), message: "is missing".to_owned() };
    }
    PlainError { missing: None, message: of_value(message).unwrap_or_else(|| message.to_owned()) }
}

fn of_value(message: &str) -> Option<String> {
    if let Some((found, wanted)) = between(message, "invalid type: ", ", expected ") {
        return Some(format!("must be {}, not {}", kind(wanted), value(found)));
    }
    if let Some((found, wanted)) = between(message, "invalid value: ", ", expected ") {
        return Some(match kind(wanted) {
            "a whole number" => {
                let size = if found.contains('-') { "larger" } else { "smaller" };
                format!("must be a {size} whole number, not {}", value(found))
            }
            kind => format!("must be {kind}, not {}", value(found)),
        });
    }
    if let Some((found, wanted)) = between(message, "unknown variant ", ", expected ") {
        let words = wanted.strip_prefix("one of ").unwrap_or(wanted).replace('`', "").replace(" or ", ", ");
        return Some(format!("must be one of {words}; not {:?}", found.trim_matches('`')));
    }
    let plain = match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number"
        }
        "number too large to fit in target type" => "must be a smaller number",
        "number too small to fit in target type" => "must be a larger number",
        "provided string was not `true` or `false`" => "must be true or false",
        "premature end of input" | "input contains invalid characters" | "input is out of range" => {
            "must be an instant in RFC 3339, such as `2026-11-21T10:00:00Z`"
        }
        text if text.starts_with("UUID parsing failed") || text.starts_with("invalid character: found") => {
            "must be an identifier (a UUID)"
        }
        _ => return None,
    };
    Some(plain.to_owned())
}

fn between<'a>(message: &'a str, before: &str, joint: &str) -> Option<(&'a str, &'a str)> {
    message.strip_prefix(before)?.rsplit_once(joint)
}

/// Translates the expected type.
fn kind(wanted: &str) -> &str {
    match wanted {
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "a borrowed string" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        text if text.starts_with("struct ") => "an object",
        other => other,
    }
}

/// Translates the found value.
fn value(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        text => match text.split_once(' ') {
            Some(("string", text)) => format!("the text {text}"),
            Some(("integer" | "boolean", plain)) => plain.replace('`', ""),
            _ => text.strip_prefix("floating point ").unwrap_or(text).replace('`', ""),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_errors_are_translated() {
        for (said, plain) in [
            (r#"invalid type: string "x", expected i64"#, r#"must be a whole number, not the text "x""#),
            (
                r#"invalid type: string "x", expected struct JobSpec"#,
                r#"must be an object, not the text "x""#,
            ),
            ("invalid type: sequence, expected a string", "must be a text, not a list"),
            ("invalid type: map, expected a sequence", "must be a list, not an object"),
            ("invalid type: null, expected a boolean", "must be true or false, not null"),
            ("invalid type: floating point `1.5`, expected u32", "must be a whole number, not 1.5"),
            ("invalid value: integer `40000`, expected i16", "must be a smaller whole number, not 40000"),
            ("invalid value: integer `-1`, expected u32", "must be a larger whole number, not -1"),
            ("unknown variant `x`, expected `a` or `b`", r#"must be one of a, b; not "x""#),
            ("unknown variant `x`, expected one of `a`, `b`, `c`", r#"must be one of a, b, c; not "x""#),
            ("invalid digit found in string", "must be a whole number"),
            ("UUID parsing failed: invalid character: found `n` at 0", "must be an identifier (a UUID)"),
            ("premature end of input", "must be an instant in RFC 3339, such as `2026-11-21T10:00:00Z`"),
            ("unknown field `date`, expected `dates`", "unknown field `date`, expected `dates`"),
            ("must be an object, not a list", "must be an object, not a list"),
        ] {
            assert_eq!(plain_error(said), PlainError { missing: None, message: plain.to_owned() });
        }
    }

    #[test]
    fn missing_field_is_named() {
        let told = PlainError { missing: Some("name".to_owned()), message: "is missing".to_owned() };
        assert_eq!(plain_error("missing field `name`"), told);
    }
}
