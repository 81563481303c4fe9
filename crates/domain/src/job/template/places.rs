//! Parses placeholders for parameters. The braces are those of `http` bodies.

use serde_json::Value;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const LITERAL_OPEN: &str = "'{{'";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text(pub(super) Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    Parameter(String),
}

impl Text {
    /// The error is for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let Some((inner, after)) = after.split_once(CLOSE) else {
                return Err(format!(
                    "has {OPEN} without {CLOSE}; a literal {OPEN} is written {OPEN}{LITERAL_OPEN}{CLOSE}"
                ));
            };
            push(&mut pieces, before);
            match inner.trim() {
                LITERAL_OPEN => push(&mut pieces, OPEN),
                name => pieces.push(Piece::Parameter(name.to_owned())),
            }
            rest = after;
        }
        push(&mut pieces, rest);
        Ok(Self(pieces))
    }

    pub(super) fn is_one_place(&self) -> bool {
        matches!(self.0.as_slice(), [Piece::Parameter(_)])
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Parameter(name) => Some(name.as_str()),
            Piece::Literal(_) => None,
        })
    }
}

fn push(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Literal(last)) => last.push_str(text),
        _ => pieces.push(Piece::Literal(text.to_owned())),
    }
}

pub(super) fn has_any(text: &str) -> bool {
    text.contains(OPEN)
}

pub(super) fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            // A text that does not parse has no placeholders.
            let Ok(text) = Text::parse(text) else { return };
            for name in text.names() {
                if !found.iter().any(|known| known == name) {
                    found.push(name.to_owned());
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
