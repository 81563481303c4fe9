//! Patterns of `LIKE`.

/// Escapes text for a LIKE pattern.
pub(crate) fn literally(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}
